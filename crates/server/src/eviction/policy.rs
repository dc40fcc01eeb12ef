//! The eviction policies, by their names in `maxmemory-policy`.

/// The policy that selects keys to evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum MaxmemoryPolicy {
    /// No key: commands that may take memory are refused.
    #[default]
    NoEviction,
    /// The keys that have not been used for the longest time.
    AllKeysLru,
    /// The least frequently used keys.
    AllKeysLfu,
    /// Any keys.
    AllKeysRandom,
    /// The keys that have not been used for the longest time, of those that expire.
    VolatileLru,
    /// The least frequently used keys, of those that expire.
    VolatileLfu,
    /// Any keys that expire.
    VolatileRandom,
    /// The keys that expire soonest.
    VolatileTtl,
}

impl MaxmemoryPolicy {
    /// The policies, by their numbers.
    pub const ALL: [MaxmemoryPolicy; 8] = [
        MaxmemoryPolicy::NoEviction,
        MaxmemoryPolicy::AllKeysLru,
        MaxmemoryPolicy::AllKeysLfu,
        MaxmemoryPolicy::AllKeysRandom,
        MaxmemoryPolicy::VolatileLru,
        MaxmemoryPolicy::VolatileLfu,
        MaxmemoryPolicy::VolatileRandom,
        MaxmemoryPolicy::VolatileTtl,
    ];

    /// Returns the policy's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            MaxmemoryPolicy::NoEviction => "noeviction",
            MaxmemoryPolicy::AllKeysLru => "allkeys-lru",
            MaxmemoryPolicy::AllKeysLfu => "allkeys-lfu",
            MaxmemoryPolicy::AllKeysRandom => "allkeys-random",
            MaxmemoryPolicy::VolatileLru => "volatile-lru",
            MaxmemoryPolicy::VolatileLfu => "volatile-lfu",
            MaxmemoryPolicy::VolatileRandom => "volatile-random",
            MaxmemoryPolicy::VolatileTtl => "volatile-ttl",
        }
    }

    /// Returns the policy of a name in any case.
    pub fn parse(name: &str) -> Option<MaxmemoryPolicy> {
        let is = |policy: &MaxmemoryPolicy| policy.name().eq_ignore_ascii_case(name);
        MaxmemoryPolicy::ALL.into_iter().find(is)
    }

    pub(super) fn from_number(number: u8) -> MaxmemoryPolicy {
        let policy = MaxmemoryPolicy::ALL.get(usize::from(number));
        debug_assert!(policy.is_some_and(|&policy| policy as u8 == number));
        policy.copied().unwrap_or_default()
    }

    /// Returns true if only keys that expire are evicted.
    pub fn is_volatile(self) -> bool {
        matches!(
            self,
            MaxmemoryPolicy::VolatileLru
                | MaxmemoryPolicy::VolatileLfu
                | MaxmemoryPolicy::VolatileRandom
                | MaxmemoryPolicy::VolatileTtl
        )
    }

    /// Returns true if keys are evicted by the frequency of their use.
    pub fn is_lfu(self) -> bool {
        matches!(
            self,
            MaxmemoryPolicy::AllKeysLfu | MaxmemoryPolicy::VolatileLfu
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        for policy in MaxmemoryPolicy::ALL {
            assert_eq!(MaxmemoryPolicy::parse(policy.name()), Some(policy));
            assert_eq!(MaxmemoryPolicy::from_number(policy as u8), policy);
        }
        assert_eq!(
            MaxmemoryPolicy::parse("AllKeys-LRU"),
            Some(MaxmemoryPolicy::AllKeysLru)
        );
        assert_eq!(MaxmemoryPolicy::parse("lru"), None);
    }
}
