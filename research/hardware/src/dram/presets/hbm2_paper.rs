//! HBM with the parameters of ADM's authors. Commercial HBM has 7-7-7 at 500 MHz, or 14-14-14 at 1
//! GHz: this is about twice as fast.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm2-paper",
    source: "ADM (Micromachines 2022), Table 2: 1 GHz, 7-7-7, 8 banks; tRAS: that of HBM1 in \
             clocks; two groups: assumed; the rest: DRAMsim3, HBM2_8Gb_x128.ini",

    channels: 8,
    ranks: 1,
    groups: 2,
    banks_per_group: 4,
    rows: 32_768,
    columns: 32,
    devices: 1.0,
    dual_command: true,

    t_ck_ps: 1000,
    burst: 2,
    cl: 7,
    cwl: 4,
    t_rcd_read: 7,
    t_rcd_write: 7,
    t_rp: 7,
    t_ras: 17,
    t_rrd_s: 4,
    t_rrd_l: 6,
    t_faw: 30,
    t_ccd_s: 1,
    t_ccd_l: 2,
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
