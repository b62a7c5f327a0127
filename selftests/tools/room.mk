# SPDX-License-Identifier: BSD-2-Clause
# What reads a command line, with the sanitizers; the other tests of tools are scripts.
$(call tests_address,tools,test_opt)
