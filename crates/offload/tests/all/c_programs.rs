//! C sources produce the same results as the builder's programs.

use crate::rack::{arena, rack, words};
use nearfield_offload::compile::{
    CompileError, ObjectError, SourceLines, compile, compile_file, compile_object, from_object,
};
use nearfield_offload::node::RackMemory;
use nearfield_offload::program::TraversalProgram;
use nearfield_offload::structures::{
    BPlusTree, BalanceAlgorithm, DuplicateKeyRule, ListKind, OffloadHashTable, OffloadList,
    SearchTree, entry,
};
use nearfield_offload::traversal::{InMemory, QueryRunner, TraversalQuery};
use std::path::Path;
use std::sync::Arc;

/// Compiles a source of this crate. Returns `None`, with a note, if there is no clang.
fn program(name: &str) -> Option<Arc<TraversalProgram>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    found(compile_file(&folder.join(name))).map(Arc::new)
}

/// Returns true if tests that need clang may be skipped.
pub fn is_missing_clang_allowed() -> bool {
    std::env::var_os("NEARFIELD_REQUIRE_CLANG").is_none()
}

fn found<T>(compiled: Result<T, CompileError>) -> Option<T> {
    match compiled {
        Err(error @ CompileError::NoClang { .. }) if is_missing_clang_allowed() => {
            eprintln!("skipped: {error}");
            None
        }
        compiled => Some(compiled.unwrap()),
    }
}

/// Runs queries with their own program and with that of a source, and checks that the outcomes
/// agree. The source must have a number of instructions in the given range.
fn agree(
    name: &str,
    instructions: std::ops::Range<usize>,
    queries: Vec<TraversalQuery>,
    rack: &RackMemory<'_>,
) {
    let Some(program) = program(name) else {
        return;
    };
    let count = program.code().instructions().len();
    assert!(
        instructions.contains(&count),
        "{name} has {count} instructions"
    );
    let mut runner = InMemory::new(rack.clone());
    let mut hits = 0;
    for query in queries {
        let Ok(expected) = runner.run(&query, 10_000);
        hits += usize::from(entry(&expected).is_some());
        let query = TraversalQuery {
            program: Arc::clone(&program),
            ..query
        };
        let Ok(outcome) = runner.run(&query, 10_000);
        assert_eq!(outcome, expected, "{name}");
    }
    assert!(hits > 50, "{hits}");
}

const KEYS: u64 = 400;

#[test]
fn the_list_in_c_does_what_the_builders_does() {
    let words = words(2);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut list = OffloadList::new(ListKind::Doubly, &mut arena).unwrap();
    for key in (0..KEYS).step_by(3) {
        list.push_front(&mut arena, key).unwrap();
    }
    let queries = (0..KEYS).filter_map(|key| list.find(key)).collect();
    agree("list.c", 10..23, queries, &rack);
}

#[test]
fn the_hash_table_in_c_does_what_the_builders_does() {
    let words = words(2);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut table = OffloadHashTable::new(&mut arena, 30).unwrap();
    for key in (0..KEYS).step_by(3) {
        table.insert(&mut arena, key, key * 7).unwrap();
    }
    let queries = (0..KEYS).map(|key| table.find(key)).collect();
    agree("hash.c", 10..25, queries, &rack);
}

#[test]
fn the_tree_in_c_does_what_the_builders_does() {
    let words = words(2);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut tree = SearchTree::new(BalanceAlgorithm::RedBlack, DuplicateKeyRule::Unique);
    for key in (0..KEYS).step_by(3) {
        tree.insert(&mut arena, key, key * 7).unwrap();
    }
    let queries = (0..KEYS).filter_map(|key| tree.lower_bound(key)).collect();
    agree("tree.c", 10..20, queries, &rack);
}

#[test]
fn the_b_plus_tree_in_c_does_what_the_builders_does() {
    let words = words(2);
    let rack = rack(&words);
    let mut arena = arena(&rack);
    let mut tree = BPlusTree::new(&mut arena).unwrap();
    for key in (0..KEYS).step_by(3) {
        tree.insert(&mut arena, key, key * 7).unwrap();
    }
    let queries = (0..KEYS).map(|key| tree.lower_bound(key)).collect();
    agree("b_plus_tree.c", 60..110, queries, &rack);
}

/// Returns a source with the given text as `next`.
fn source(next: &str) -> String {
    format!(
        "#include \"nearfield_offload.h\"
         u64 table[4];
         u64 outside(u64);
         struct node {{ u64 next; }};
         struct scratchpad {{ u64 word; }};
         NEARFIELD_INLINE int end(const struct node *n, struct scratchpad *s, u64 a) {{ return 0; }}
         NEARFIELD_INLINE u64 next(const struct node *n, struct scratchpad *s, u64 a) {{ {next} }}
         NEARFIELD_TRAVERSAL(struct node, struct scratchpad)"
    )
}

#[test]
fn what_programs_cannot_do_is_refused_by_name() {
    let Some(program) = found(compile(&source("return n->next;"))) else {
        return;
    };
    assert_eq!(program.code().instructions().len(), 2);
    let global = compile(&source("return table[a & 3];"));
    assert!(
        matches!(&global, Err(CompileError::Object(ObjectError::Relocation { symbol, .. }))
            if symbol == "table"),
        "{global:?}"
    );
    let call = compile(&source("return outside(a);"));
    assert!(
        matches!(&call, Err(CompileError::Object(ObjectError::Relocation { symbol, .. }))
            if symbol == "outside"),
        "{call:?}"
    );
    let far = compile(&source("return (&n->next)[40] + n->next;"));
    assert!(
        matches!(far, Err(CompileError::Object(ObjectError::Verify(_)))),
        "{far:?}"
    );
    let wrong = compile(&source("return nothing;"));
    assert!(
        matches!(wrong, Err(CompileError::Refused { .. })),
        "{wrong:?}"
    );
    let plain = compile("int main() { return 0; }");
    assert!(
        matches!(plain, Err(CompileError::Object(ObjectError::NoSection(_)))),
        "{plain:?}"
    );
    assert!(matches!(
        from_object(b"not an object"),
        Err(ObjectError::Format(_))
    ));
}

#[test]
fn refusals_have_their_place_in_the_source() {
    let folder = std::env::temp_dir().join(format!("nearfield-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("traversal.c");
    let object = |next: &str| {
        std::fs::write(&path, source(next)).unwrap();
        found(compile_object(&path))
    };
    let cases = [
        ("u64 *w = &s->word;\n\n return n->next + w[40];", 9),
        ("\n return n->next + table[a & 3];", 8),
    ];
    for (next, line) in cases {
        let Some(object) = object(next) else {
            return;
        };
        let error = from_object(&object).unwrap_err();
        let lines = SourceLines::of_object(&object);
        let place = lines.of_error(&error).expect("clang writes the lines");
        assert_eq!(place.line, line, "{place:?}");
        assert!(place.file.ends_with("traversal.c"), "{place:?}");
        assert!(place.text.contains("return n->next + "), "{place:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
