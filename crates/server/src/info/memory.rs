//! The section about memory.

use super::InfoPage;
use crate::keyspace::Databases;
use crate::machine;
use crate::server::ServerCore;
use std::sync::atomic::Ordering::Relaxed;

/// The memory in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Memory of keys, objects, clients and the records of their use; `maxmemory` limits it.
    pub used: u64,
    /// The largest value of `used` so far.
    pub peak: u64,
    /// Memory of clients.
    pub clients: u64,
    /// Memory of the process, as the system reports it.
    pub resident: u64,
    /// The number of removed values that wait to be freed.
    pub waiting_objects: usize,
    /// The number of values that were freed after waiting, since the start.
    pub freed_objects: u64,
    /// Memory of the machine.
    pub machine: u64,
}

impl Figures {
    /// Reads all figures.
    pub fn take(server: &ServerCore, databases: &Databases) -> Figures {
        let clients = server.eviction.client_bytes() as u64;
        let used = server.used_bytes(databases);
        let peak = &server.statistics.peak_memory_bytes;
        // `fetch_max` returns the old maximum.
        let peak = peak.fetch_max(used, Relaxed).max(used);
        Figures {
            used,
            peak,
            clients,
            // Without a report of the system, no fragmentation is shown.
            resident: machine::resident_bytes().unwrap_or(used),
            waiting_objects: server.keyspace.freeing.waiting_objects(),
            freed_objects: server.keyspace.freeing.freed_objects(),
            machine: nearfield_tiers::machine::memory_bytes().unwrap_or(0),
        }
    }

    /// Returns the process's memory divided by that of its data.
    pub fn fragmentation(&self) -> f64 {
        self.resident as f64 / (self.used as f64).max(1.0)
    }

    /// Returns the difference in bytes. It is negative if values are in a file.
    pub fn fragmentation_bytes(&self) -> i64 {
        self.resident as i64 - self.used as i64
    }

    /// Returns the memory of keys and objects alone.
    pub fn dataset(&self) -> u64 {
        self.used.saturating_sub(self.clients)
    }
}

/// Formats a number of bytes for people: `1.50M`.
fn human(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "K", "M", "G", "T"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{bytes}B")
            } else {
                format!("{value:.2}{unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.2}P")
}

/// Writes the section.
pub fn write(page: &mut InfoPage<'_>) {
    let figures = Figures::take(page.server, page.databases);
    let dataset = figures.dataset();
    let percent =
        |part: u64, of: u64| format!("{:.2}%", part as f64 * 100.0 / (of as f64).max(1.0));
    page.field("used_memory", figures.used);
    page.field("used_memory_human", human(figures.used));
    page.field("used_memory_rss", figures.resident);
    page.field("used_memory_rss_human", human(figures.resident));
    page.field("used_memory_peak", figures.peak);
    page.field("used_memory_peak_human", human(figures.peak));
    page.field("used_memory_peak_perc", percent(figures.used, figures.peak));
    page.field("used_memory_overhead", figures.clients);
    page.field("used_memory_startup", 0);
    page.field("used_memory_dataset", dataset);
    page.field("used_memory_dataset_perc", percent(dataset, figures.used));
    page.field("allocator_allocated", figures.used);
    page.field("allocator_active", figures.resident);
    page.field("allocator_resident", figures.resident);
    page.field("total_system_memory", figures.machine);
    page.field("total_system_memory_human", human(figures.machine));
    let scripts = &page.server.scripts;
    let functions = &page.server.functions;
    let (libraries, all_functions) = functions.counts();
    let states = [scripts.engine_bytes(), functions.engine_bytes()];
    let known = [scripts.known_bytes(), functions.known_bytes()];
    page.field("used_memory_vm_eval", states[0]);
    page.field("used_memory_lua", states[0]);
    page.field("used_memory_lua_human", human(states[0] as u64));
    page.field("used_memory_scripts_eval", known[0]);
    page.field("number_of_cached_scripts", scripts.len());
    page.field("number_of_functions", all_functions);
    page.field("number_of_libraries", libraries);
    page.field("used_memory_vm_functions", states[1]);
    page.field("used_memory_vm_total", states[0] + states[1]);
    page.field(
        "used_memory_vm_total_human",
        human((states[0] + states[1]) as u64),
    );
    page.field("used_memory_functions", known[1]);
    page.field("used_memory_scripts", known[0] + known[1]);
    page.field(
        "used_memory_scripts_human",
        human((known[0] + known[1]) as u64),
    );
    let maxmemory = page.server.config.hot.maxmemory_bytes.load(Relaxed);
    page.field("maxmemory", maxmemory);
    page.field("maxmemory_human", human(maxmemory));
    let policy = page.server.config.text("maxmemory-policy");
    page.field("maxmemory_policy", policy);
    let ratio = figures.fragmentation();
    let more = figures.fragmentation_bytes();
    // All memory of the process counts as the allocator's.
    page.field("allocator_frag_ratio", format!("{ratio:.2}"));
    page.field("allocator_frag_bytes", more);
    for part in ["allocator_rss", "rss_overhead"] {
        page.field(&format!("{part}_ratio"), "1.00");
        page.field(&format!("{part}_bytes"), 0);
    }
    page.field("mem_fragmentation_ratio", format!("{ratio:.2}"));
    page.field("mem_fragmentation_bytes", more);
    page.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ]);
    page.field("mem_clients_normal", figures.clients);
    page.zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    page.field("mem_allocator", "nearfield");
    page.zeros(&["active_defrag_running"]);
    page.field("lazyfree_pending_objects", figures.waiting_objects);
    page.field("lazyfreed_objects", figures.freed_objects);
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1024), "1.00K");
        assert_eq!(human(6_623_232), "6.32M");
        assert_eq!(human(25_276_502_016), "23.54G");
    }
}
