# SPDX-License-Identifier: BSD-2-Clause
# awk -f join.awk TABLE PAGE.in: what a program's table has for its page (--help=man), and the
# hand-written rest. The table's head comes first, COMMANDS and what follows them where PAGE.in
# says @TABLE@; another @FILE@ stands for that file.
FNR == 1 { file++ }
file == 1 {
	behind = behind || /^\.SH (COMMANDS|OPTIONS)$/
	if (behind)
		table = table $0 "\n"
	else
		print
	next
}
$0 == "@TABLE@" {
	printf "%s", table
	next
}
/^@.*@$/ {
	name = substr($0, 2, length($0) - 2)
	while ((got = (getline line < name)) > 0)
		print line
	if (got < 0) {
		print "join.awk: no file " name > "/dev/stderr"
		exit 1
	}
	close(name)
	next
}
{ print }
