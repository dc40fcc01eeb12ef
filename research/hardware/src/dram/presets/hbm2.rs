//! HBM2, 2 Gb/s per pin: eight channels of 128 bits.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm2",
    source: "DRAMsim3, HBM2_8Gb_x128.ini; tRTP and tRTRS, which it lacks: DRAMsim3's defaults",

    channels: 8,
    ranks: 1,
    groups: 4,
    banks_per_group: 4,
    rows: 32_768,
    columns: 32,
    devices: 1.0,
    dual_command: true,

    t_ck_ps: 1000,
    burst: 2,
    cl: 14,
    cwl: 4,
    t_rcd_read: 14,
    t_rcd_write: 14,
    t_rp: 14,
    t_ras: 34,
    t_rrd_s: 4,
    t_rrd_l: 6,
    t_faw: 30,
    t_ccd_s: 1,
    t_ccd_l: 2,
    t_ccd_l_write: 2,
    t_rtp: 5,
    t_wr: 16,
    t_wtr_s: 6,
    t_wtr_l: 8,
    t_rtrs: 2,
    t_rfc: 260,
    t_refi: 3900,

    currents: Currents {
        vdd: 1.2,
        idd0: 65.0,
        idd2n: 40.0,
        idd3n: 55.0,
        idd4r: 390.0,
        idd4w: 500.0,
        idd5ab: 250.0,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
