//! The libraries of functions: the metadata of their first line, and the names and flags of their
//! functions.

use super::failure::message;
use super::lowercase;
use crate::carried;
use crate::resp::request::split_words;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason why a library is refused. The texts are error replies without the code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The code does not begin with `#!`.
    #[error("Missing library metadata")]
    NoMetadata,
    /// The first line does not end, or its quotes do not.
    #[error("Invalid library metadata")]
    BadMetadata,
    /// The first line gives two names.
    #[error("Invalid metadata value, name argument was given multiple times")]
    TwoNames,
    /// The first line has an unknown field.
    #[error("Invalid metadata value given: {0}")]
    UnknownMetadata(String),
    /// The first line gives no name.
    #[error("Library name was not given")]
    NoName,
    /// The name of a library or function has other characters.
    #[error(
        "Library names can only contain letters, numbers, or underscores(_) and must be at least \
         one character long"
    )]
    BadName,
    /// The engine is not Lua.
    #[error("Engine '{0}' not found")]
    UnknownEngine(String),
    /// A library of that name exists.
    #[error("Library '{0}' already exists")]
    Exists(String),
    /// A library of that name exists, and a restored one has it, too.
    #[error("Library {0} already exists")]
    RestoredExists(String),
    /// Another library has a function of that name.
    #[error("Function {0} already exists")]
    FunctionExists(String),
    /// The code does not compile.
    #[error("Error compiling function: {0}")]
    Compile(String),
    /// The code fails when it runs.
    #[error("Error registering functions: {0}")]
    Register(String),
    /// The library has no functions.
    #[error("No functions registered")]
    Empty,
    /// No library has that name.
    #[error("Library not found")]
    NotFound,
    /// The Lua state fails.
    #[error("Error running script: {0}")]
    Lua(String),
}

impl From<mlua::Error> for LibraryError {
    fn from(error: mlua::Error) -> LibraryError {
        LibraryError::Lua(message(&error))
    }
}

/// Returns true if the text may be the name of a library or function.
pub(super) fn is_name(name: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(may_be)
}

/// The metadata in the first line of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHeader<'c> {
    /// The name of the library.
    pub name: String,
    /// The code after the first line. It keeps that line's end, so that lines are counted as they
    /// were sent.
    pub body: &'c [u8],
}

impl LibraryHeader<'_> {
    /// Splits the code of a library into the first line, `#!lua name=NAME`, and the rest.
    ///
    /// # Errors
    /// The first line lacks its fields, or has others.
    pub fn parse(code: &[u8]) -> Result<LibraryHeader<'_>, LibraryError> {
        if !code.starts_with(b"#!") {
            return Err(LibraryError::NoMetadata);
        }
        let end = memchr::memchr(b'\n', code).ok_or(LibraryError::BadMetadata)?;
        let (line, body) = code.split_at(end);
        let words = split_words(line).ok_or(LibraryError::BadMetadata)?;
        let text = carried::text;
        let mut words = words.iter();
        let engine = words.next().ok_or(LibraryError::BadMetadata)?;
        let engine = engine.get(2..).unwrap_or_default();
        let mut name = None;
        for word in words {
            match word.split_at_checked(5) {
                Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(value).is_some() {
                        return Err(LibraryError::TwoNames);
                    }
                }
                _ => return Err(LibraryError::UnknownMetadata(text(word))),
            }
        }
        let name = name.ok_or(LibraryError::NoName)?;
        if !is_name(name) {
            return Err(LibraryError::BadName);
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(LibraryError::UnknownEngine(text(engine)));
        }
        Ok(LibraryHeader {
            name: text(name),
            body,
        })
    }
}

/// The flags with which a function was registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// The flag of a function that does not write.
    pub const NO_WRITES: FunctionFlags = FunctionFlags(1);
    /// The flag of a function that may run when memory is exhausted.
    pub const ALLOW_OOM: FunctionFlags = FunctionFlags(1 << 1);

    /// The names of all flags, in the order of their bits. The others change nothing, because there
    /// is no cluster, and no replica that could be stale.
    const NAMES: [&'static str; 5] = [
        "no-writes",
        "allow-oom",
        "allow-stale",
        "no-cluster",
        "allow-cross-slot-keys",
    ];

    /// Returns the flag of a name, in upper or lower case.
    pub fn named(name: &[u8]) -> Option<FunctionFlags> {
        let mut names = FunctionFlags::NAMES.iter();
        let bit = names.position(|it| it.as_bytes().eq_ignore_ascii_case(name))?;
        Some(FunctionFlags(1 << bit))
    }

    /// Returns the union of these and `others`.
    pub fn with(self, others: FunctionFlags) -> FunctionFlags {
        FunctionFlags(self.0 | others.0)
    }

    /// Returns true if all of `others` are set.
    pub fn has(self, others: FunctionFlags) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the names of the flags.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let names = FunctionFlags::NAMES.iter().enumerate();
        names.filter_map(move |(bit, name)| (self.0 >> bit & 1 == 1).then_some(*name))
    }
}

const _: () = assert!(FunctionFlags::NAMES.len() <= u8::BITS as usize);

/// A function of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the function, by which it is called in upper or lower case.
    pub name: String,
    /// The description with which it was registered.
    pub description: Option<Vec<u8>>,
    /// The flags with which it was registered.
    pub flags: FunctionFlags,
    /// The number by which its Lua state finds it.
    pub number: u64,
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The name of the library.
    pub name: String,
    /// The complete code, including the first line.
    pub code: Arc<[u8]>,
    /// The functions, in the order in which they were registered.
    pub functions: Vec<Arc<Function>>,
}

impl Library {
    /// Returns the bytes of memory that the library takes outside of Lua.
    fn memory_bytes(&self) -> usize {
        let function = |it: &Arc<Function>| {
            let described = it.description.as_ref().map_or(0, Vec::len);
            size_of::<Function>() + it.name.len() + described
        };
        let functions: usize = self.functions.iter().map(function).sum();
        size_of::<Library>() + self.name.len() + self.code.len() + functions
    }
}

/// A set of libraries, of which no two have a function of the same name.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// The functions by their names in lower case.
    functions: HashMap<String, Arc<Function>>,
}

impl Libraries {
    /// Returns the library of a name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(std::str::from_utf8(name).ok()?)
    }

    /// Returns all libraries in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Returns the number of all functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the bytes of memory that the libraries take outside of Lua.
    pub fn memory_bytes(&self) -> usize {
        self.iter().map(|library| library.memory_bytes()).sum()
    }

    /// Returns the function of a name, in upper or lower case.
    pub fn function(&self, name: &[u8]) -> Option<&Arc<Function>> {
        let name = std::str::from_utf8(name).ok()?;
        self.functions.get(&*lowercase(name))
    }

    /// Adds a library. No library may have its name. An error changes nothing.
    ///
    /// # Errors
    /// [`FunctionExists`](LibraryError::FunctionExists).
    pub fn add(&mut self, library: Library) -> Result<(), LibraryError> {
        debug_assert!(
            !self.by_name.contains_key(&library.name),
            "its functions would stay"
        );
        let mut functions = library.functions.iter();
        // All are looked up before any is added, so that an error changes nothing.
        if let Some(known) = functions.find(|it| self.functions.contains_key(&*lowercase(&it.name)))
        {
            return Err(LibraryError::FunctionExists(known.name.clone()));
        }
        for function in &library.functions {
            let key = lowercase(&function.name).into_owned();
            let other = self.functions.insert(key, Arc::clone(function));
            debug_assert!(other.is_none(), "a library has two functions of a name");
        }
        self.by_name.insert(library.name.clone(), Arc::new(library));
        Ok(())
    }

    /// Removes the library of a name and returns it.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Library>> {
        let library = self.by_name.remove(std::str::from_utf8(name).ok()?)?;
        for function in &library.functions {
            let removed = self.functions.remove(&*lowercase(&function.name));
            debug_assert!(removed.is_some(), "a library's functions are known");
        }
        Some(library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_library() {
        let metadata = LibraryHeader::parse(b"#!LUA NAME='a_1'\nbody").unwrap();
        assert_eq!(metadata.name, "a_1");
        assert_eq!(metadata.body, b"\nbody");
        for (code, error) in [
            ("", LibraryError::NoMetadata),
            ("#!lua name=a", LibraryError::BadMetadata),
            ("#!lua name='a\n", LibraryError::BadMetadata),
            ("#!lua\n", LibraryError::NoName),
            ("#!lua name=a name=b\n", LibraryError::TwoNames),
            (
                "#!lua nam\n",
                LibraryError::UnknownMetadata("nam".to_owned()),
            ),
            ("#!lua name=a-b\n", LibraryError::BadName),
            (
                "#!js name=a\n",
                LibraryError::UnknownEngine("js".to_owned()),
            ),
        ] {
            assert_eq!(LibraryHeader::parse(code.as_bytes()), Err(error), "{code}");
        }
    }

    #[test]
    fn a_function_is_in_one_library_only() {
        let library = |name: &str, function: &str| Library {
            name: name.to_owned(),
            code: Arc::from(&b""[..]),
            functions: vec![Arc::new(Function {
                name: function.to_owned(),
                description: None,
                flags: FunctionFlags::default(),
                number: 0,
            })],
        };
        let mut libraries = Libraries::default();
        libraries.add(library("a", "f")).unwrap();
        let error = LibraryError::FunctionExists("F".to_owned());
        assert_eq!(libraries.add(library("b", "F")), Err(error));
        assert_eq!(libraries.iter().len(), 1);
        libraries.remove(b"a").unwrap();
        assert!(libraries.function(b"f").is_none());
        libraries.add(library("b", "F")).unwrap();
        assert_eq!(libraries.function(b"f").unwrap().name, "F");
    }
}
