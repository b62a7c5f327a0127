# SPDX-License-Identifier: BSD-2-Clause
# An MPI program, which test_mpi starts. It is built where Open MPI's headers are (hostlib/room.mk).
$(eval $(call program,$(B)/selftests/mpi/check,$(B)/obj/openmpi/selftests/mpi/check.o,-L$(OPENMPI_LIB) -lmpi -lm -lpthread))
TESTS_mpi := $(if $(OPENMPI_H),$(B)/selftests/mpi/check)
