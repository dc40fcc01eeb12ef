//! The programs that a memory node knows, ready to run.

use crate::node::Tenant;
use crate::program::{ProgramHash, TraversalProgram};
use crate::traversal::{ProgramEngine, TraversalStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Number of programs that a node keeps for each tenant. The structures of this crate have eleven.
const PROGRAMS_MAX: usize = 64;

/// Programs by tenant and hash: no tenant can evict another's.
#[derive(Debug)]
pub struct ProgramCache {
    engine: fn(Arc<TraversalProgram>) -> ProgramEngine,
    /// The time of translations of each tenant in a second; `None` if programs are translated when
    /// they arrive.
    budget: Option<Duration>,
    tenants: HashMap<Tenant, TenantPrograms>,
    uses: u64,
    /// Number of programs that wait for their translation, of all tenants.
    waiting: usize,
}

#[derive(Debug, Default)]
struct TenantPrograms {
    known: HashMap<ProgramHash, CachedProgram>,
    /// The programs that are interpreted until they are translated, in their order.
    waiting: VecDeque<ProgramHash>,
    /// The time that was spent on translations, less the budget since then.
    spent: Duration,
    /// The time at which `spent` was computed.
    noted: Duration,
}

/// A program for any thread to translate while its node interprets it.
#[derive(Debug)]
pub struct ProgramTranslation {
    tenant: Tenant,
    program: Arc<TraversalProgram>,
    engine: fn(Arc<TraversalProgram>) -> ProgramEngine,
}

/// A program that was translated.
#[derive(Debug)]
pub struct TranslatedProgram {
    tenant: Tenant,
    engine: ProgramEngine,
}

impl ProgramTranslation {
    /// Translates the program.
    pub fn run(self) -> TranslatedProgram {
        TranslatedProgram {
            tenant: self.tenant,
            engine: (self.engine)(self.program),
        }
    }
}

impl TenantPrograms {
    /// Returns the time that was spent, less the budget up to now.
    fn spent(&mut self, now: Duration, budget: Duration) -> Duration {
        let passed = now.saturating_sub(self.noted);
        // The budget is that of a second.
        let earned = budget.as_secs_f64() * passed.as_secs_f64();
        let earned = Duration::try_from_secs_f64(earned).unwrap_or(Duration::MAX);
        (self.spent, self.noted) = (self.spent.saturating_sub(earned), self.noted.max(now));
        self.spent
    }
}

#[derive(Debug)]
struct CachedProgram {
    engine: ProgramEngine,
    last_use: u64,
}

impl ProgramCache {
    pub fn new(
        engine: fn(Arc<TraversalProgram>) -> ProgramEngine,
        budget: Option<Duration>,
    ) -> ProgramCache {
        ProgramCache {
            engine,
            budget,
            tenants: HashMap::new(),
            uses: 0,
            waiting: 0,
        }
    }

    /// Returns the next program to translate: one of the tenant that has spent the least, and less
    /// than its budget.
    pub fn next_translation(&mut self, now: Duration) -> Option<ProgramTranslation> {
        let budget = self.budget.filter(|_| self.waiting > 0)?;
        let tenants = self.tenants.iter_mut();
        let waiting = tenants.filter(|(_, programs)| !programs.waiting.is_empty());
        let spent = waiting.map(|(tenant, programs)| (programs.spent(now, budget), *tenant));
        let (_, tenant) = spent.filter(|(spent, _)| *spent < budget).min()?;
        let programs = self.tenants.get_mut(&tenant)?;
        let hash = programs.waiting.pop_front()?;
        self.waiting -= 1;
        let known = programs.known.get(&hash)?;
        Some(ProgramTranslation {
            tenant,
            program: Arc::clone(known.engine.program()),
            engine: self.engine,
        })
    }

    /// Uses a translated program from its next request on. Notes the time that it has taken.
    pub fn take_translated(&mut self, now: Duration, done: TranslatedProgram, time: Duration) {
        let (Some(budget), Some(programs)) = (self.budget, self.tenants.get_mut(&done.tenant))
        else {
            return;
        };
        programs.spent = programs.spent(now, budget).saturating_add(time);
        let hash = done.engine.program().hash();
        if let Some(known) = programs.known.get_mut(&hash) {
            known.engine = done.engine;
        }
    }

    /// Returns the engine of the program with a hash; `body` is the program's bytes, or empty.
    pub fn find(
        &mut self,
        tenant: Tenant,
        hash: ProgramHash,
        body: &[u8],
    ) -> Result<&ProgramEngine, TraversalStatus> {
        self.uses += 1;
        let programs = self.tenants.entry(tenant).or_default();
        let known = &mut programs.known;
        if !known.contains_key(&hash) {
            if body.is_empty() {
                return Err(TraversalStatus::UnknownProgram);
            }
            let program = TraversalProgram::decode(body).ok();
            // Nodes trust the hash later, so no other program may be known by it.
            let program = program.filter(|program| program.hash() == hash);
            let program = program.ok_or(TraversalStatus::RefusedProgram)?;
            let engine = match self.budget {
                None => (self.engine)(program.into()),
                Some(_) => {
                    programs.waiting.push_back(hash);
                    self.waiting += 1;
                    ProgramEngine::Interpreter(program.into())
                }
            };
            debug_assert!(known.len() <= PROGRAMS_MAX);
            if known.len() == PROGRAMS_MAX {
                // A tenant has few programs, and evicts one only if a caller sends many. A search
                // costs less than an order that each use updates.
                let oldest = known.iter().min_by_key(|(_, known)| known.last_use);
                if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                    known.remove(&oldest);
                    // The waiting programs are known ones, so they are no more than these.
                    let before = programs.waiting.len();
                    programs.waiting.retain(|hash| *hash != oldest);
                    self.waiting -= before - programs.waiting.len();
                }
            }
            let last_use = self.uses;
            known.insert(hash, CachedProgram { engine, last_use });
        }
        let known = known
            .get_mut(&hash)
            .ok_or(TraversalStatus::UnknownProgram)?;
        debug_assert!(known.last_use <= self.uses, "uses only grow");
        known.last_use = self.uses;
        Ok(&known.engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::assemble;
    use crate::program::Declaration;

    fn program(number: usize) -> TraversalProgram {
        let code = assemble(&format!("mov r0, {number}\n exit")).expect("code");
        TraversalProgram::verify(code, Declaration::default()).expect("a program")
    }

    #[test]
    fn programs_are_known_until_others_drive_them_out_of_the_same_tenant() {
        let mut programs = ProgramCache::new(ProgramEngine::Interpreter, None);
        let mut find = |tenant, number, with_body: bool| {
            let program = program(number);
            let body = if with_body {
                program.encode()
            } else {
                Vec::new()
            };
            programs
                .find(Tenant(tenant), program.hash(), &body)
                .map(drop)
        };
        assert_eq!(find(1, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(1, 0, true), Ok(()));
        assert_eq!(find(1, 0, false), Ok(()));
        assert_eq!(find(2, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(2, 0, true), Ok(()));
        for number in 1..=PROGRAMS_MAX {
            assert_eq!(find(1, number, true), Ok(()));
        }
        assert_eq!(find(1, 0, false), Err(TraversalStatus::UnknownProgram));
        assert_eq!(find(2, 0, false), Ok(()));
    }

    #[test]
    fn bytes_with_another_hash_are_refused() {
        let mut programs = ProgramCache::new(ProgramEngine::Interpreter, None);
        assert!(programs.next_translation(Duration::ZERO).is_none());
        let mut find = |body: &[u8]| {
            let found = programs.find(Tenant(1), program(1).hash(), body);
            found.map(drop)
        };
        assert_eq!(
            find(&program(2).encode()),
            Err(TraversalStatus::RefusedProgram)
        );
        assert_eq!(find(&[1, 2, 3]), Err(TraversalStatus::RefusedProgram));
        assert_eq!(find(&program(1).encode()), Ok(()));
    }

    const MS: Duration = Duration::from_millis(1);

    /// Returns an engine that differs from all others.
    fn fresh(program: Arc<TraversalProgram>) -> ProgramEngine {
        ProgramEngine::Interpreter(Arc::new(program.as_ref().clone()))
    }

    /// Returns the engine of a program, which is new to the cache or not.
    fn found(programs: &mut ProgramCache, tenant: u16, number: usize) -> ProgramEngine {
        let program = program(number);
        let found = programs.find(Tenant(tenant), program.hash(), &program.encode());
        found.expect("a program").clone()
    }

    #[test]
    fn programs_are_interpreted_until_they_are_translated() {
        let mut programs = ProgramCache::new(fresh, Some(MS * 100));
        let before = found(&mut programs, 1, 0);
        assert!(found(&mut programs, 1, 0).is_same(&before));
        let job = programs.next_translation(MS).expect("it waits");
        // It is translated once, and interpreted meanwhile.
        assert!(programs.next_translation(MS).is_none());
        let done = job.run();
        assert!(found(&mut programs, 1, 0).is_same(&before));
        programs.take_translated(MS * 2, done, MS);
        let after = found(&mut programs, 1, 0);
        assert!(!after.is_same(&before));
        assert_eq!(after.program().hash(), before.program().hash());
    }

    #[test]
    fn no_tenant_spends_more_than_its_budget() {
        let mut programs = ProgramCache::new(fresh, Some(MS * 100));
        for number in 0..3 {
            found(&mut programs, 1, number);
        }
        found(&mut programs, 2, 0);
        // The first one of some tenant takes as long as five seconds of budget.
        let first = programs.next_translation(MS).expect("a budget");
        let tenant = first.tenant;
        programs.take_translated(MS, first.run(), MS * 500);
        let second = programs.next_translation(MS).expect("the other's budget");
        assert_ne!(second.tenant, tenant);
        programs.take_translated(MS, second.run(), MS * 500);
        assert!(programs.next_translation(MS * 2).is_none());
        assert!(programs.next_translation(MS * 4000).is_none());
        assert!(programs.next_translation(MS * 4100).is_some());
    }

    #[test]
    fn evicted_programs_are_not_translated() {
        let mut programs = ProgramCache::new(fresh, Some(MS * 100));
        for number in 0..3 * PROGRAMS_MAX {
            found(&mut programs, 1, number);
            assert!(programs.waiting <= PROGRAMS_MAX);
        }
        let mut count = 0;
        while let Some(job) = programs.next_translation(MS) {
            programs.take_translated(MS, job.run(), Duration::ZERO);
            count += 1;
        }
        assert_eq!((count, programs.waiting), (PROGRAMS_MAX, 0));
    }
}
