//! HBM3, 6.4 Gb/s per pin: sixteen channels as thirty-two pseudo channels of 32 bits.
//!
//! A line is two bursts of 32 bytes, modelled as in `hbm2e.rs`.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm3",
    source: "JESD238 for structure and clock; latencies: as public simulators set them; currents: \
             a quarter of HBM2's, because the bus is a quarter as wide, assumed",

    channels: 32,
    ranks: 1,
    groups: 4,
    banks_per_group: 4,
    rows: 32_768,
    columns: 16,
    devices: 1.0,
    dual_command: true,

    t_ck_ps: 625,
    burst: 4,
    cl: 20,
    cwl: 10,
    t_rcd_read: 31,
    t_rcd_write: 15,
    t_rp: 26,
    t_ras: 45,
    t_rrd_s: 4,
    t_rrd_l: 5,
    t_faw: 24,
    t_ccd_s: 4,
    t_ccd_l: 8,
    t_ccd_l_write: 8,
    t_rtp: 9,
    t_wr: 33,
    t_wtr_s: 7,
    t_wtr_l: 10,
    t_rtrs: 2,
    t_rfc: 560,
    t_refi: 6240,

    currents: Currents {
        vdd: 1.1,
        idd0: 16.25,
        idd2n: 10.0,
        idd3n: 13.75,
        idd4r: 97.5,
        idd4w: 125.0,
        idd5ab: 62.5,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
