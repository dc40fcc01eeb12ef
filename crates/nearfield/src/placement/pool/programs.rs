//! Connections to memory nodes that run programs.

use nearfield_offload::net::CallerSettings;
use nearfield_offload::net::udp::OffloadClient;
use nearfield_offload::node::Tenant;
use nearfield_offload::wire::AuthenticationKey;
use nearfield_pool::filtered::PoolProgramExecutor;
use std::net::SocketAddrV4;
use std::time::Duration;

/// The time that a thread waits for a reply, before it reads the leaves itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// The memory nodes that run programs of a tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramNodes {
    /// The switch, or the only memory node.
    pub switch: SocketAddrV4,
    pub tenant: Tenant,
    pub key: AuthenticationKey,
}

impl ProgramNodes {
    /// Returns a connection for one thread.
    pub fn connect(&self) -> Result<Box<dyn PoolProgramExecutor>, String> {
        let change = |settings: &mut CallerSettings| settings.patience = PATIENCE;
        let client = OffloadClient::new(self.switch, self.tenant, self.key, change);
        match client {
            Ok(client) => Ok(Box::new(client)),
            Err(error) => Err(format!(
                "the programs of {} are not reachable: {error}",
                self.switch
            )),
        }
    }
}
