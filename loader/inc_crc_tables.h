/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of the CRC-32 of the ICRC (reflected polynomial INC_CRC_POLY) for the XDP programs. They
 * are in the object's read-only data and are filled before it is loaded.
 */
#ifndef INC_CRC_TABLES_H
#define INC_CRC_TABLES_H

#include <stdint.h>

#define INC_CRC_SLICES   8
#define INC_SHIFT_POWERS 10

/*
 * crc[k][b] is the state after byte b from state 0, followed by k zero bytes (slicing by 8). The
 * entry shift[p][j][b] starts from the state whose byte j is b and whose other bytes are 0. The
 * entry is that state advanced over 4 << p zero bytes. The CRC is linear, so any state advances to
 * the xor of four such entries.
 */
void inc_crc_fill_tables(uint32_t crc[INC_CRC_SLICES][256],
			 uint32_t shift[INC_SHIFT_POWERS][4][256]);

#endif
