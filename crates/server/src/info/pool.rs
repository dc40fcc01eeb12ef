//! The section about the pool.

use super::InfoPage;
use nearfield::PoolNodeUse;

/// Writes the section.
pub fn write(page: &mut InfoPage<'_>) {
    let Some(pool) = page.server.keyspace.home.pool_use() else {
        page.field("pool_nodes", 0);
        return;
    };
    let is_excluded = |node: &&PoolNodeUse| node.state.is_excluded;
    let excluded = pool.nodes.iter().filter(is_excluded).count();
    // A node that is excluded holds nothing of the pool, so that its loss fails no command.
    let is_lost = |node: &&PoolNodeUse| !node.state.is_served && !node.state.is_excluded;
    page.field("pool_nodes", pool.nodes.len());
    page.field("pool_nodes_lost", pool.nodes.iter().filter(is_lost).count());
    page.field("pool_nodes_excluded", excluded);
    page.field("pool_cache_bytes", pool.cache_bytes);
    page.field("pool_cache_hits", pool.cache_lookups.hits);
    page.field("pool_cache_misses", pool.cache_lookups.misses);
    page.field("pool_retired_bytes", pool.retired_bytes);
    for node in &pool.nodes {
        let (state, traffic) = (&node.state, &node.traffic);
        let name = match (state.is_excluded, state.is_served) {
            (true, _) => "excluded",
            (false, true) => "served",
            (false, false) => "lost",
        };
        let counts = [
            ("failures", state.failures),
            ("reads", traffic.reads),
            ("writes", traffic.writes),
            ("atomics", traffic.atomics),
            ("calls", traffic.calls),
            ("read_bytes", traffic.read_bytes),
            ("written_bytes", traffic.written_bytes),
            ("held_locks", traffic.held_locks),
            ("torn_reads", state.torn_reads),
            ("stale_routes", state.stale_routes),
            ("lost_posts", traffic.lost_posts),
        ];
        let mut fields = format!("state={name}");
        for (name, count) in counts {
            fields += &format!(",{name}={count}");
        }
        page.field(&format!("pool_node_{}", state.node.0), fields);
    }
}
