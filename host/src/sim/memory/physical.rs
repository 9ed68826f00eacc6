//! Physical memory: a sealed `memfd` whose name says which device owns it, so that any process can import it.

use super::multicast::MULTICAST;
use crate::Result;
use crate::sim::result::{INVALID_VALUE, io};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::fs::{fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create, readlinkat};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const NAME_PREFIX: &str = "symmem-sim-device-";

/// What makes two descriptors name the same file: device number and inode.
pub(crate) type Identity = (u64, u64);

/// A physical allocation of this machine or of another process's.
#[derive(Debug)]
pub(crate) struct Physical {
    fd: OwnedFd,
    /// Bytes.
    pub(crate) len_bytes: u64,
    /// The device that owns the memory.
    pub(crate) device: u32,
    /// Names the file.
    pub(crate) identity: Identity,
    /// Made here, so that it counts against this process's device memory.
    pub(crate) charged: bool,
    /// Was made with a handle type that can be exported.
    pub(crate) exportable: bool,
}

impl Physical {
    /// Makes zeroed memory. No page of it exists before its first use.
    pub(crate) fn create(device: u32, len_bytes: u64) -> Result<Self> {
        let failed = |errno| io(format!("making {len_bytes} bytes of memory for device {device}"), errno);
        let name = format!("{NAME_PREFIX}{device}");
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(failed)?;
        ftruncate(&fd, len_bytes).map_err(failed)?;
        // A file that cannot shrink never turns an access of a mapping into SIGBUS.
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(failed)?;
        let identity = identity(fd.as_fd()).map_err(failed)?;
        Ok(Self { fd, len_bytes, device, identity, charged: true, exportable: true })
    }

    /// Takes memory that another process made.
    ///
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` when the descriptor is no physical allocation of a simulated machine.
    pub(crate) fn import(fd: BorrowedFd<'_>) -> Result<Self> {
        let refused = |why: &str| {
            INVALID_VALUE
                .of("cuMemImportFromShareableHandle", format!("descriptor {}: {why}", fd.as_raw_fd()))
        };
        let device = owner(fd).ok_or_else(|| refused("not memory of a simulated machine"))?;
        let seals = fcntl_get_seals(fd).map_err(|_| refused("cannot be sealed"))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(refused("its size may change"));
        }
        let len_bytes = fstat(fd).map_err(|errno| refused(&errno.to_string()))?.st_size as u64;
        let identity = identity(fd).map_err(|errno| refused(&errno.to_string()))?;
        let fd = duplicate(fd)?;
        Ok(Self { fd, len_bytes, device, identity, charged: false, exportable: true })
    }

    /// A multicast object, which has no bytes of its own: the file is what processes know of it.
    pub(crate) fn of_multicast(fd: OwnedFd, len_bytes: u64, identity: Identity) -> Self {
        Self { fd, len_bytes, device: MULTICAST, identity, charged: false, exportable: true }
    }

    /// A new descriptor for the memory, for the caller to keep or send.
    pub(crate) fn export(&self) -> Result<OwnedFd> {
        duplicate(self.fd.as_fd())
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Zeroes a range of whole pages by giving them back, so that they exist again only when used.
    pub(crate) fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        fallocate(&self.fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len_bytes)
            .map_err(|errno| io(format!("zeroing {len_bytes} bytes"), errno))
    }
}

/// Names the file behind a descriptor.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> Result<Identity, rustix::io::Errno> {
    let facts = fstat(fd)?;
    Ok((facts.st_dev as u64, facts.st_ino as u64))
}

pub(super) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
        .map_err(|errno| io("duplicating the descriptor of an allocation", errno))
}

/// The owner that the file's name carries: `/memfd:symmem-sim-device-3 (deleted)`.
fn owner(fd: BorrowedFd<'_>) -> Option<u32> {
    let link = link_of(fd)?;
    let name = link.strip_prefix("/memfd:")?.strip_prefix(NAME_PREFIX)?;
    name.split(' ').next()?.parse().ok()
}

/// What a descriptor is a link to, in words.
pub(super) fn link_of(fd: BorrowedFd<'_>) -> Option<String> {
    let link = readlinkat(rustix::fs::CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()).ok()?;
    link.into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_knows_owner_size_and_identity() {
        let made = Physical::create(5, 2 << 20).unwrap();
        let imported = Physical::import(made.export().unwrap().as_fd()).unwrap();
        assert_eq!((imported.device, imported.len_bytes), (5, 2 << 20));
        assert_eq!(imported.identity, made.identity);
        assert!(!imported.charged && made.charged);
    }

    #[test]
    fn refuses_other_files() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = Physical::import(file.as_fd()).unwrap_err().to_string();
        assert!(error.contains("not memory of a simulated machine"), "{error}");
        let unsealed = memfd_create(format!("{NAME_PREFIX}0"), MemfdFlags::CLOEXEC).unwrap();
        assert!(Physical::import(unsealed.as_fd()).is_err());
    }
}
