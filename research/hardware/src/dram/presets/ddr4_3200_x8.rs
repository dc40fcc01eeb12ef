//! DDR4-3200, eight devices of 8 Gb with 8 bits per channel. The rest is the same as with 16 bits.

use super::ddr4_3200_x16;
use crate::dram::{Currents, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "ddr4-3200-x8",
    source: "DRAMsim3, DDR4_8Gb_x8_3200.ini; two channels: ADM, Table 2; one rank: assumed",

    groups: 4,
    devices: 8.0,

    t_rrd_s: 4,
    t_rrd_l: 8,
    t_faw: 34,

    currents: Currents {
        vdd: 1.2,
        idd0: 57.0,
        idd2n: 37.0,
        idd3n: 52.0,
        idd4r: 168.0,
        idd4w: 150.0,
        idd5ab: 250.0,
    },

    ..ddr4_3200_x16::PARAMETERS
};
