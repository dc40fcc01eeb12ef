//! HBM2E, 3.2 Gb/s per pin: eight channels as sixteen pseudo channels of 64 bits.
//!
//! A line is two bursts of 32 bytes, modelled as one command that occupies the bus and its group
//! for both: `burst` is 2 + 2 clocks, `t_ccd_l` 4 + 4.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "hbm2e",
    source: "JESD235D for structure and clock; latencies: HBM2's in ns, assumed; currents: half of \
             HBM2's, because a pseudo channel is half a channel, assumed",

    channels: 16,
    ranks: 1,
    groups: 4,
    banks_per_group: 4,
    rows: 32_768,
    columns: 16,
    devices: 1.0,
    dual_command: true,

    t_ck_ps: 625,
    burst: 4,
    cl: 23,
    cwl: 7,
    t_rcd_read: 23,
    t_rcd_write: 23,
    t_rp: 23,
    t_ras: 54,
    t_rrd_s: 7,
    t_rrd_l: 10,
    t_faw: 26,
    t_ccd_s: 4,
    t_ccd_l: 8,
    t_ccd_l_write: 8,
    t_rtp: 8,
    t_wr: 26,
    t_wtr_s: 10,
    t_wtr_l: 13,
    t_rtrs: 2,
    t_rfc: 560,
    t_refi: 6240,

    currents: Currents {
        vdd: 1.2,
        idd0: 32.5,
        idd2n: 20.0,
        idd3n: 27.5,
        idd4r: 195.0,
        idd4w: 250.0,
        idd5ab: 125.0,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
