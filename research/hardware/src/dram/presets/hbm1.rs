//! HBM, 1 Gb/s per pin: eight channels of 128 bits.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm1",
    source: "DRAMsim3, HBM1_4Gb_x128.ini, with its tRTP within a group, which DRAMsim3 does not \
             read; tRTRS, which it lacks: DRAMsim3's default",

    channels: 8,
    ranks: 1,
    groups: 4,
    banks_per_group: 4,
    rows: 16_384,
    columns: 32,
    devices: 1.0,
    dual_command: true,

    t_ck_ps: 2000,
    burst: 2,
    cl: 7,
    cwl: 2,
    t_rcd_read: 7,
    t_rcd_write: 7,
    t_rp: 7,
    t_ras: 17,
    t_rrd_s: 2,
    t_rrd_l: 3,
    t_faw: 15,
    t_ccd_s: 1,
    t_ccd_l: 1,
    t_ccd_l_write: 1,
    t_rtp: 3,
    t_wr: 8,
    t_wtr_s: 3,
    t_wtr_l: 4,
    t_rtrs: 2,
    t_rfc: 130,
    t_refi: 1950,

    currents: Currents {
        vdd: 1.2,
        idd0: 65.0,
        idd2n: 40.0,
        idd3n: 55.0,
        idd4r: 360.0,
        idd4w: 440.0,
        idd5ab: 250.0,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
