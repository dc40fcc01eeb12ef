//! The section about the pool.

use super::InfoPage;
use nearfield::PoolNodeState;

/// Writes the section.
pub fn write(page: &mut InfoPage<'_>) {
    let Some(pool) = page.server.keyspace.home.pool_use() else {
        page.field("pool_nodes", 0);
        return;
    };
    let excluded = pool.nodes.iter().filter(|node| node.is_excluded).count();
    // A node that is excluded holds nothing of the pool, so that its loss fails no command.
    let is_lost = |node: &&PoolNodeState| !node.is_served && !node.is_excluded;
    page.field("pool_nodes", pool.nodes.len());
    page.field("pool_nodes_lost", pool.nodes.iter().filter(is_lost).count());
    page.field("pool_nodes_excluded", excluded);
    page.field("pool_cache_bytes", pool.cache_bytes);
    page.field("pool_retired_bytes", pool.retired_bytes);
    for node in &pool.nodes {
        let state = match (node.is_excluded, node.is_served) {
            (true, _) => "excluded",
            (false, true) => "served",
            (false, false) => "lost",
        };
        let fields = format!("state={state},failures={}", node.failures);
        page.field(&format!("pool_node_{}", node.node.0), fields);
    }
}
