# SPDX-License-Identifier: BSD-2-Clause
# The test of the command line parser, built with the sanitizers. The other tests of this suite are scripts.
$(call tests_address,tools,test_opt)
