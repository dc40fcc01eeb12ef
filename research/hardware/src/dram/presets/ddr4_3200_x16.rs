//! DDR4-3200, four devices of 8 Gb with 16 bits per channel.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "ddr4-3200-x16",
    source: "DRAMsim3, DDR4_8Gb_x16_3200.ini; two channels: ADM, Table 2; one rank: assumed",

    channels: 2,
    ranks: 1,
    groups: 2,
    banks_per_group: 4,
    rows: 65_536,
    columns: 128,
    devices: 4.0,
    dual_command: false,

    t_ck_ps: 625,
    burst: 4,
    cl: 22,
    cwl: 16,
    t_rcd_read: 22,
    t_rcd_write: 22,
    t_rp: 22,
    t_ras: 52,
    t_rrd_s: 9,
    t_rrd_l: 11,
    t_faw: 48,
    t_ccd_s: 4,
    t_ccd_l: 8,
    t_ccd_l_write: 8,
    t_rtp: 12,
    t_wr: 24,
    t_wtr_s: 4,
    t_wtr_l: 12,
    t_rtrs: 1,
    t_rfc: 560,
    t_refi: 12_480,

    currents: Currents {
        vdd: 1.2,
        idd0: 95.0,
        idd2n: 37.0,
        idd3n: 56.0,
        idd4r: 302.0,
        idd4w: 278.0,
        idd5ab: 280.0,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
