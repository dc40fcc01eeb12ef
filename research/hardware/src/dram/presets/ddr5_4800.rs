//! DDR5-4800, four devices of 16 Gb with 8 bits per channel; a module has two channels of 32 bits.

use crate::dram::{Currents, DramPagePolicy, DramParameters};

pub(super) const PARAMETERS: DramParameters = DramParameters {
    name: "ddr5-4800",
    source: "JESD79-5, speed bin 4800B, 16 Gb x8; tRTRS and currents: assumed, as in generic \
             sets",

    channels: 2,
    ranks: 1,
    groups: 8,
    banks_per_group: 4,
    rows: 65_536,
    columns: 64,
    devices: 4.0,
    dual_command: false,

    t_ck_ps: 416,
    burst: 8,
    cl: 40,
    cwl: 38,
    t_rcd_read: 39,
    t_rcd_write: 39,
    t_rp: 39,
    t_ras: 77,
    t_rrd_s: 8,
    t_rrd_l: 12,
    t_faw: 32,
    t_ccd_s: 8,
    t_ccd_l: 12,
    t_ccd_l_write: 24,
    t_rtp: 18,
    t_wr: 72,
    t_wtr_s: 6,
    t_wtr_l: 24,
    t_rtrs: 2,
    t_rfc: 708,
    t_refi: 9375,

    currents: Currents {
        vdd: 1.1,
        idd0: 60.0,
        idd2n: 50.0,
        idd3n: 55.0,
        idd4r: 145.0,
        idd4w: 145.0,
        idd5ab: 362.0,
    },

    transaction_queue: 32,
    command_queue: 8,
    page: DramPagePolicy::Open,
};
