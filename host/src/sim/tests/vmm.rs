//! What the driver allows and refuses of memory, and what it leaves behind.

use super::*;
use crate::backend::PhysicalHandle;
use std::os::fd::{AsFd, OwnedFd};

fn machine() -> Arc<SimMachine> {
    let config = SimConfig { n_devices: 3, device_memory_bytes: 8 * GRAIN, ..SimConfig::default() };
    SimMachine::new(config).unwrap()
}

/// Memory of device 0, mapped, without rights.
fn mapped(machine: &SimMachine) -> (u64, PhysicalHandle) {
    let physical = machine.mem_create(0, GRAIN).unwrap();
    let address = machine.address_reserve(4 * GRAIN, 0, 0).unwrap();
    machine.mem_map(address, GRAIN, physical).unwrap();
    (address, physical)
}

type Refusal = fn(&SimMachine, u64, PhysicalHandle) -> Result<(), Error>;

/// What is asked, the code of the answer, and the call. Each gets 2 MiB of device 0 mapped at the start of a reservation
/// of 8 MiB.
const REFUSALS: &[(&str, u32, Refusal)] = &[
    ("create 0 bytes", 1, |m, _, _| m.mem_create(0, 0).map(drop)),
    ("create half a granule", 1, |m, _, _| m.mem_create(0, GRAIN / 2).map(drop)),
    ("create more than there is", 2, |m, _, _| m.mem_create(0, 8 * GRAIN).map(drop)),
    ("release a dead handle", 1, |m, _, _| m.mem_release(PhysicalHandle(99))),
    ("release twice", 1, |m, _, p| m.mem_release(p).and_then(|()| m.mem_release(p))),
    ("ask about a dead handle", 1, |m, _, _| m.mem_is_exportable(PhysicalHandle(99)).map(drop)),
    ("export a dead handle", 1, |m, _, _| m.mem_export(PhysicalHandle(99)).map(drop)),
    ("retain an unmapped address", 1, |m, a, _| m.mem_retain(a + GRAIN).map(drop)),
    ("retain host memory", 1, |m, _, _| m.mem_retain(m.host_alloc(1)?.device).map(drop)),
    ("reserve 0 bytes", 1, |m, _, _| m.address_reserve(0, 0, 0).map(drop)),
    ("reserve an odd size", 1, |m, _, _| m.address_reserve(GRAIN + 1, 0, 0).map(drop)),
    ("reserve at an odd alignment", 1, |m, _, _| m.address_reserve(GRAIN, 3, 0).map(drop)),
    ("reserve too much", 2, |m, _, _| m.address_reserve(1 << 60, 0, 0).map(drop)),
    ("free a reservation in use", 1, |m, a, _| m.address_free(a, 4 * GRAIN)),
    ("free half a reservation", 1, |m, a, _| m.mem_unmap(a, GRAIN).and_then(|()| m.address_free(a, GRAIN))),
    ("free inside a reservation", 1, |m, a, _| m.address_free(a + GRAIN, GRAIN)),
    ("map a dead handle", 1, |m, a, _| m.mem_map(a + GRAIN, GRAIN, PhysicalHandle(99))),
    ("map over a mapping", 1, |m, a, p| m.mem_map(a, GRAIN, p)),
    ("map at an odd address", 1, |m, a, p| m.mem_map(a + GRAIN + 4096, GRAIN, p)),
    ("map half an allocation", 1, |m, a, p| m.mem_map(a + GRAIN, GRAIN / 2, p)),
    ("map more than an allocation", 1, |m, a, p| m.mem_map(a + GRAIN, 2 * GRAIN, p)),
    ("map past a reservation", 1, |m, a, p| m.mem_map(a + 4 * GRAIN, GRAIN, p)),
    ("unmap nothing", 1, |m, a, _| m.mem_unmap(a + GRAIN, GRAIN)),
    ("unmap half a mapping", 1, |m, a, _| m.mem_unmap(a, GRAIN / 2)),
    ("unmap more than a mapping", 1, |m, a, _| m.mem_unmap(a, 2 * GRAIN)),
    ("rights on half a mapping", 1, |m, a, _| m.mem_set_access(a, GRAIN / 2, 0, Access::Read)),
    ("rights on nothing", 1, |m, a, _| m.mem_set_access(a + GRAIN, GRAIN, 0, Access::Read)),
    ("read without rights", 1, |m, a, _| m.read(0, a, &mut [0; 4])),
    ("write without rights", 1, |m, a, _| m.write(0, a, &[0; 4])),
    ("fill without rights", 1, |m, a, _| m.fill(0, a, 0, 4)),
    ("write with read rights", 1, |m, a, _| {
        m.mem_set_access(a, GRAIN, 0, Access::Read)?;
        m.write(0, a, &[0; 4])
    }),
    ("read with another device's rights", 1, |m, a, _| {
        m.mem_set_access(a, GRAIN, 0, Access::Read)?;
        m.read(1, a, &mut [0; 4])
    }),
    ("read past a mapping", 1, |m, a, _| {
        m.mem_set_access(a, GRAIN, 0, Access::Read)?;
        m.read(0, a + GRAIN - 2, &mut [0; 4])
    }),
    ("allocate 0 plain bytes", 1, |m, _, _| m.mem_alloc(0, 0).map(drop)),
    ("allocate more plain memory than there is", 2, |m, _, _| m.mem_alloc(0, 8 * GRAIN).map(drop)),
    ("free plain memory twice", 1, |m, _, _| {
        let address = m.mem_alloc(0, 1)?;
        m.mem_free(0, address)?;
        m.mem_free(0, address)
    }),
    ("free plain memory of another device", 1, |m, _, _| m.mem_free(1, m.mem_alloc(0, 1)?)),
    ("free a mapping as plain memory", 1, |m, a, _| m.mem_free(0, a)),
    ("retain plain memory", 1, |m, _, _| m.mem_retain(m.mem_alloc(0, 1)?).map(drop)),
    ("unmap plain memory", 1, |m, _, _| m.mem_unmap(m.mem_alloc(0, 1)?, GRAIN)),
    ("rights on plain memory", 1, |m, _, _| m.mem_set_access(m.mem_alloc(0, 1)?, GRAIN, 1, Access::Read)),
    ("read plain memory of a peer", 1, |m, _, _| m.read(1, m.mem_alloc(0, 1)?, &mut [0; 4])),
    ("copy onto itself", 1, |m, _, _| {
        let address = m.mem_alloc(0, 100)?;
        m.copy_within_device(0, address, address + 50, 51)
    }),
    ("copy without rights", 1, |m, a, _| m.copy_within_device(0, a, m.mem_alloc(0, 1)?, 4)),
    ("facts of nothing", 1, |m, _, _| m.pointer_facts(64).map(drop)),
    ("facts of host memory", 1, |m, _, _| m.pointer_facts(m.host_alloc(1)?.device).map(drop)),
    ("allocate 0 bytes of the host", 1, |m, _, _| m.host_alloc(0).map(drop)),
    ("free host memory twice", 1, |m, _, _| {
        let memory = m.host_alloc(1)?;
        m.host_free(memory)?;
        m.host_free(memory)
    }),
    ("import another file", 1, |m, _, _| {
        m.mem_import(std::fs::File::open("/dev/null").unwrap().as_fd()).map(drop)
    }),
];

#[test]
fn refusals() {
    for (name, code, case) in REFUSALS {
        let machine = machine();
        let (address, physical) = mapped(&machine);
        match case(&machine, address, physical).map_err(|error| error.kind().clone()) {
            Err(ErrorKind::Driver { code: found, .. }) if found == *code => {}
            other => panic!("{name}: expected CUresult {code}, found {other:?}"),
        }
    }
}

#[test]
fn devices_that_do_not_exist_are_named() {
    let machine = machine();
    for error in [
        machine.mem_create(3, GRAIN).map(drop).unwrap_err(),
        machine.stream_create(3).map(drop).unwrap_err(),
        machine.device_facts(3).map(drop).unwrap_err(),
        machine.can_access_peer(0, 3).map(drop).unwrap_err(),
    ] {
        assert_eq!(*error.kind(), ErrorKind::NoSuchDevice { device: 3, found: 3 });
    }
}

#[test]
fn a_machine_without_p2p_gives_no_rights() {
    let peer_access = Some(vec![true, false, true, true]);
    let machine = SimMachine::new(SimConfig { n_devices: 2, peer_access, ..SimConfig::default() }).unwrap();
    assert!(!machine.can_access_peer(0, 1).unwrap() && machine.can_access_peer(1, 0).unwrap());
    let physical = machine.mem_create(1, GRAIN).unwrap();
    let address = machine.address_reserve(GRAIN, 0, 0).unwrap();
    machine.mem_map(address, GRAIN, physical).unwrap();
    refused(machine.mem_set_access(address, GRAIN, 0, Access::Read), 217);
    machine.mem_set_access(address, GRAIN, 1, Access::ReadWrite).unwrap();
}

#[test]
fn one_allocation_at_two_places_is_the_same_bytes() {
    let machine = machine();
    let (first, physical) = mapped(&machine);
    let second = first + 2 * GRAIN;
    machine.mem_map(second, GRAIN, physical).unwrap();
    for address in [first, second] {
        machine.mem_set_access(address, GRAIN, 2, Access::ReadWrite).unwrap();
    }
    machine.write(2, first + 100, b"symmetric").unwrap();
    let mut back = [0; 9];
    machine.read(2, second + 100, &mut back).unwrap();
    assert_eq!(&back, b"symmetric");
    let facts = machine.pointer_facts(second + 100).unwrap();
    assert_eq!((facts.mapping_base, facts.mapping_len_bytes, facts.device), (second, GRAIN, 0));
}

#[test]
fn ranges_of_several_mappings_work_as_one() {
    let machine = machine();
    let (address, physical) = mapped(&machine);
    machine.mem_map(address + GRAIN, GRAIN, physical).unwrap();
    machine.mem_set_access(address, 2 * GRAIN, 0, Access::ReadWrite).unwrap();
    machine.write(0, address + GRAIN - 4, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut start = [0; 4];
    machine.read(0, address, &mut start).unwrap();
    assert_eq!(start, [5, 6, 7, 8]);
    machine.mem_unmap(address, 2 * GRAIN).unwrap();
    machine.address_free(address, 4 * GRAIN).unwrap();
}

#[test]
fn a_mapping_keeps_memory_alive_and_gives_its_handle_back() {
    let machine = machine();
    let (address, physical) = mapped(&machine);
    machine.mem_release(physical).unwrap();
    refused(machine.mem_export(physical), 1);
    assert_eq!(machine.mem_retain(address + 5).unwrap(), physical);
    machine.mem_release(physical).unwrap();
    machine.mem_unmap(address, GRAIN).unwrap();
    refused(machine.mem_map(address, GRAIN, physical), 1);
    machine.mem_create(0, 8 * GRAIN).unwrap();
}

#[test]
fn plain_memory_is_counted_and_copied() {
    let machine = machine();
    let free_bytes = machine.memory_free_bytes(0).unwrap();
    let (from, to) = (machine.mem_alloc(0, GRAIN + 1).unwrap(), machine.mem_alloc(0, 200_000).unwrap());
    assert_eq!(free_bytes - machine.memory_free_bytes(0).unwrap(), 3 * GRAIN);
    let bytes: Vec<u8> = (0..150_001_u32).map(|n| (n % 251) as u8).collect();
    machine.write(0, from + 3, &bytes).unwrap();
    machine.copy_within_device(0, from + 3, to + 7, bytes.len() as u64).unwrap();
    let mut back = vec![0; bytes.len()];
    machine.read(0, to + 7, &mut back).unwrap();
    assert_eq!(back, bytes);
    for address in [from, to] {
        machine.mem_free(0, address).unwrap();
    }
    assert_eq!(machine.memory_free_bytes(0).unwrap(), free_bytes);
    assert_eq!(machine.live(), LiveCounts::default());
}

fn import_and_read(machine: &SimMachine, fd: &OwnedFd, device: u32) -> (u32, Vec<u8>) {
    let physical = machine.mem_import(fd.as_fd()).unwrap();
    let address = machine.address_reserve(GRAIN, 0, 0).unwrap();
    machine.mem_map(address, GRAIN, physical).unwrap();
    machine.mem_set_access(address, GRAIN, device, Access::Read).unwrap();
    let mut bytes = vec![0; 4];
    machine.read(device, address, &mut bytes).unwrap();
    (machine.pointer_facts(address).unwrap().device, bytes)
}

#[test]
fn exported_memory_is_the_same_here_and_in_another_machine() {
    let (machine, other) = (machine(), machine());
    let physical = machine.mem_create(2, GRAIN).unwrap();
    let address = machine.address_reserve(GRAIN, 0, 0).unwrap();
    machine.mem_map(address, GRAIN, physical).unwrap();
    machine.mem_set_access(address, GRAIN, 2, Access::ReadWrite).unwrap();
    machine.write(2, address, &[1, 2, 3, 4]).unwrap();
    let fd = machine.mem_export(physical).unwrap();
    assert_eq!(import_and_read(&machine, &fd, 1), (2, vec![1, 2, 3, 4]));
    assert_eq!(import_and_read(&other, &fd, 0), (2, vec![1, 2, 3, 4]));
    let small = SimMachine::new(SimConfig { n_devices: 1, ..SimConfig::default() }).unwrap();
    refused(small.mem_import(fd.as_fd()), 1);
}

#[test]
fn fills_set_exactly_their_bytes() {
    let machine = machine();
    let (address, _) = mapped(&machine);
    machine.mem_set_access(address, GRAIN, 0, Access::ReadWrite).unwrap();
    for (byte, from, len) in [(0, 0, GRAIN), (0, 5000, 100_000), (7, 3, 9000), (0, 4096, 65536), (0, 1, 10)] {
        machine.fill(0, address, 0xee, GRAIN).unwrap();
        machine.fill(0, address + from, byte, len).unwrap();
        let mut bytes = vec![0; GRAIN as usize];
        machine.read(0, address, &mut bytes).unwrap();
        let range = from as usize..(from + len) as usize;
        assert!(bytes[range.clone()].iter().all(|&found| found == byte), "{byte} {from} {len}");
        assert!(bytes[..range.start].iter().chain(&bytes[range.end..]).all(|&found| found == 0xee));
    }
}

#[test]
fn host_memory_is_reached_by_every_device() {
    let bed = Bed::with_devices(2);
    let memory = bed.machine.host_alloc(100).unwrap();
    let out = bed.alloc(0, GRAIN);
    bed.set_words(1, memory.device, &[41]);
    bed.launch(0, "copy_add", (1, 1), &[memory.device, memory.device + 4, 1]);
    bed.launch(0, "copy_add", (1, 1), &[memory.device + 4, out, 1]);
    bed.synchronize(0).unwrap();
    assert_eq!(bed.words(1, memory.host, 2), [41, 42]);
    assert_eq!(bed.words(0, out, 1), [43]);
    assert_eq!(bed.machine.counters().unwrap().link_bytes, 0);
    bed.machine.host_free(memory).unwrap();
}

#[test]
fn live_counts_come_back_to_where_they_were() {
    let bed = Bed::with_devices(2);
    let machine = &bed.machine;
    let before = machine.live();
    let (address, physical) = mapped(machine);
    let import = machine.mem_import(machine.mem_export(physical).unwrap().as_fd()).unwrap();
    let host = machine.host_alloc(5000).unwrap();
    let plain = machine.mem_alloc(1, 5000).unwrap();
    let stream = machine.stream_create(1).unwrap();
    let event = machine.event_create(1, true).unwrap();
    let module = machine.module_load(1, KERNELS, "here").unwrap();
    let object = machine.multicast_create(1, GRAIN).unwrap();
    machine.multicast_add_device(object, 0).unwrap();
    machine.multicast_bind(object, 0, physical, 0, GRAIN).unwrap();
    machine.capture_begin(stream).unwrap();
    let graph = machine.capture_end(stream).unwrap();
    let exec = machine.graph_instantiate(graph).unwrap();
    let during = LiveCounts {
        physical_handles: before.physical_handles + 3,
        mappings: before.mappings + 1,
        reservations: before.reservations + 1,
        host_allocations: before.host_allocations + 1,
        plain_allocations: before.plain_allocations + 1,
        multicast_bindings: before.multicast_bindings + 1,
        streams: before.streams + 1,
        events: before.events + 1,
        modules: before.modules + 1,
        graphs: before.graphs + 1,
        graph_execs: before.graph_execs + 1,
    };
    assert_eq!(machine.live(), during);
    machine.mem_unmap(address, GRAIN).unwrap();
    machine.address_free(address, 4 * GRAIN).unwrap();
    machine.multicast_unbind(object, 0, 0, GRAIN).unwrap();
    machine.mem_release(object).unwrap();
    machine.mem_release(physical).unwrap();
    machine.mem_release(import).unwrap();
    machine.host_free(host).unwrap();
    machine.mem_free(1, plain).unwrap();
    machine.stream_destroy(stream).unwrap();
    machine.event_destroy(event).unwrap();
    machine.module_unload(module).unwrap();
    machine.graph_destroy(graph).unwrap();
    machine.graph_exec_destroy(exec).unwrap();
    assert_eq!(machine.live(), before);
}

#[test]
fn many_ranks_fit_in_the_address_space() {
    let machine = SimMachine::new(SimConfig { n_devices: 72, ..SimConfig::default() }).unwrap();
    let stride = machine.device_facts(0).unwrap().memory_bytes;
    let spaces: Vec<u64> = (0..4).map(|_| machine.address_reserve(72 * stride, stride, 0).unwrap()).collect();
    assert!(spaces.iter().all(|space| space.is_multiple_of(stride)));
}

/// Runs this test again in another process whose standard input is exported memory; the process stores into it from a
/// kernel.
#[test]
fn memory_is_shared_between_processes() {
    const ROLE: &str = "SYMMEM_TEST_IMPORTS_STDIN";
    let bed = Bed::with_devices(2);
    if std::env::var_os(ROLE).is_some() {
        let physical = bed.machine.mem_import(std::io::stdin().as_fd()).unwrap();
        let address = bed.machine.address_reserve(GRAIN, 0, 0).unwrap();
        bed.machine.mem_map(address, GRAIN, physical).unwrap();
        assert_eq!(bed.machine.pointer_facts(address).unwrap().device, 1);
        bed.machine.mem_set_access(address, GRAIN, 0, Access::ReadWrite).unwrap();
        bed.launch(0, "copy_add", (1, 1), &[address, address + 4, 1]);
        return bed.synchronize(0).unwrap();
    }
    let address = bed.alloc(1, GRAIN);
    bed.set_words(1, address, &[41]);
    let physical = bed.machine.mem_retain(address).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sim::tests::vmm::memory_is_shared_between_processes"])
        .env(ROLE, "1")
        .stdin(bed.machine.mem_export(physical).unwrap())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success() && printed.contains("1 passed"), "{printed}");
    assert_eq!(bed.words(1, address, 2), [41, 42]);
}
