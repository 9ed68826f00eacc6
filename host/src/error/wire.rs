//! Errors as bytes: what one rank met arrives typed at all others.

use super::{Error, ErrorKind, Repr};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

impl Error {
    /// The error as bytes, without what caused it in another rank.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.context.put(&mut bytes);
        self.0.kind.put(&mut bytes);
        bytes
    }

    /// The error of which these are the bytes; `None` if they are none of this version.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let context = Vec::get(&mut bytes)?;
        let kind = ErrorKind::get(&mut bytes)?;
        bytes.is_empty().then(|| Self(Box::new(Repr { kind, context, cause: None })))
    }
}

/// A value as bytes: numbers little-endian, texts and lists behind their length.
trait Wire: Sized {
    fn put(&self, bytes: &mut Vec<u8>);
    /// Takes the value off the front.
    fn get(bytes: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn get(bytes: &mut &[u8]) -> Option<Self> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*first))
            }
        }
    )*};
}

numbers! { u8 u32 u64 }

impl Wire for String {
    fn put(&self, bytes: &mut Vec<u8>) {
        (self.len() as u32).put(bytes);
        bytes.extend(self.as_bytes());
    }

    fn get(bytes: &mut &[u8]) -> Option<Self> {
        let len = u32::get(bytes)? as usize;
        let (text, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl Wire for &'static str {
    fn put(&self, bytes: &mut Vec<u8>) {
        (*self).to_owned().put(bytes);
    }

    fn get(bytes: &mut &[u8]) -> Option<Self> {
        String::get(bytes).map(kept)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.0.put(bytes);
        self.1.put(bytes);
    }

    fn get(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::get(bytes)?, B::get(bytes)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, bytes: &mut Vec<u8>) {
        (self.len() as u32).put(bytes);
        self.iter().for_each(|one| one.put(bytes));
    }

    fn get(bytes: &mut &[u8]) -> Option<Self> {
        let len = u32::get(bytes)?;
        (0..len).map(|_| T::get(bytes)).collect()
    }
}

/// The text for good. A rank sends the literals of its program, which are few; each is kept once.
fn kept(text: String) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    match texts.get(text.as_str()) {
        Some(found) => found,
        None => {
            let text: &'static str = text.leak();
            texts.insert(text);
            text
        }
    }
}

/// Every kind with its number on the wire and its fields in their order there.
macro_rules! kinds {
    ($($number:literal $name:ident { $($field:ident),* })*) => {
        impl Wire for ErrorKind {
            fn put(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field),* } => {
                        bytes.push($number);
                        $($field.put(bytes);)*
                    })*
                }
            }

            fn get(bytes: &mut &[u8]) -> Option<Self> {
                Some(match u8::get(bytes)? {
                    $($number => Self::$name { $($field: Wire::get(bytes)?),* },)*
                    _ => return None,
                })
            }
        }
    };
}

kinds! {
    0 NoDriver { reason }
    1 DriverTooOld { driver, ptx, needed }
    2 DeviceCount { asked, found }
    3 NoSuchDevice { device, found }
    4 NoPeerAccess { device, peer }
    5 Driver { call, code, name, operand }
    6 MissingSymbol { symbol }
    7 InvalidPtx { origin, log }
    8 Unsupported { what, hint }
    9 SizeOverflow { what }
    10 InvalidArgument { what, found, allowed }
    11 WindowTooSmall { what, needed_bytes, found_bytes }
    12 OutsideWindow { address, len_bytes, nearest }
    13 Misaligned { what, found, required }
    14 PartialOverlap { input, output }
    15 Foreign { what, detail }
    16 Mismatch { field, values }
    17 RankFailed { rank, reason }
    18 Deadline { what, timeout_ms, missing }
    19 Timeout { rank, peer, block, step, epoch_expected, epoch_seen }
    20 Poisoned { rank, by }
    21 Aborted { rank }
    22 Capture { what }
    23 Deadlock { report }
    24 Fault { report }
    25 Io { what, reason }
    26 BadMessage { rank, step, reason }
    27 NotPrepared { what, hint }
    28 Race { report }
    29 Mismatched { rank, peer, called, peer_called }
    30 Concurrent { rank }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Error> {
        let kinds = [
            ErrorKind::DriverTooOld { driver: (11, 4), ptx: (8, 0), needed: (12, 0) },
            ErrorKind::Driver { call: "cuMemMap", code: 2, name: "OOM".into(), operand: "é".into() },
            ErrorKind::Misaligned { what: "address", found: u64::MAX, required: 16 },
            ErrorKind::Mismatch { field: "size", values: vec!["1".into(), String::new()] },
            ErrorKind::Deadline { what: "a step".into(), timeout_ms: 5, missing: vec![0, 7] },
            ErrorKind::PartialOverlap { input: (1, 2), output: (3, 4) },
            ErrorKind::Aborted { rank: 3 },
        ];
        kinds.into_iter().map(|kind| Error::from(kind).context("inner").context("outer")).collect()
    }

    #[test]
    fn arrives_as_it_was() {
        for error in samples() {
            let arrived = Error::from_bytes(&error.to_bytes()).expect("bytes of an error");
            assert_eq!((arrived.kind(), arrived.to_string()), (error.kind(), error.to_string()));
        }
    }

    #[test]
    fn literals_are_kept_once() {
        assert!(std::ptr::eq(kept("a step".to_owned()), kept("a step".to_owned())));
    }

    #[test]
    fn a_part_is_no_error() {
        for error in samples() {
            let bytes = error.to_bytes();
            (0..bytes.len())
                .for_each(|len| assert!(Error::from_bytes(&bytes[..len]).is_none(), "{len} of {error}"));
            assert!(Error::from_bytes(&[bytes, vec![0]].concat()).is_none());
        }
    }

    proptest! {
        /// Whatever a peer sends, reading it ends without a panic and without taking much memory.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(error) = Error::from_bytes(&bytes) {
                prop_assert_eq!(error.to_bytes(), bytes);
            }
        }
    }
}
