//! Multicast objects: what the driver refuses and waits for, and what kernels find behind their addresses.

use super::*;
use crate::backend::PhysicalHandle;
use crate::sim::{MulticastCall, MulticastFault};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

const OBJECT: u64 = 4 * GRAIN;
const MEMORY: u64 = 2 * GRAIN;
const PTX: &str = include_str!("ptx/multicast.ptx");

/// Three devices; an object of 4 granules whose team, devices 0 and 1, is complete; 2 granules of memory on each device.
struct Team {
    machine: Arc<SimMachine>,
    object: PhysicalHandle,
    memory: [PhysicalHandle; 3],
}

fn config() -> SimConfig {
    SimConfig { n_devices: 3, device_memory_bytes: 64 * GRAIN, stall_grace_ms: 20, ..SimConfig::default() }
}

impl Team {
    fn new(config: SimConfig) -> Self {
        let machine = SimMachine::new(config).unwrap();
        let object = machine.multicast_create(2, OBJECT).unwrap();
        (0..2).for_each(|device| machine.multicast_add_device(object, device).unwrap());
        let memory = [0, 1, 2].map(|device| machine.mem_create(device, MEMORY).unwrap());
        Self { machine, object, memory }
    }

    fn bind(&self, device: usize, offset: u64) -> Result<(), Error> {
        self.machine.multicast_bind(self.object, offset, self.memory[device], 0, MEMORY)
    }

    /// The object's address, with rights for both members.
    fn map(&self) -> u64 {
        let address = self.machine.address_reserve(OBJECT, 0, 0).unwrap();
        self.machine.mem_map(address, OBJECT, self.object).unwrap();
        for device in [0, 1] {
            self.machine.mem_set_access(address, OBJECT, device, Access::ReadWrite).unwrap();
        }
        address
    }

    /// The memory's own address, with rights for its device.
    fn map_memory(&self, device: u32) -> u64 {
        let address = self.machine.address_reserve(MEMORY, 0, 0).unwrap();
        self.machine.mem_map(address, MEMORY, self.memory[device as usize]).unwrap();
        self.machine.mem_set_access(address, MEMORY, device, Access::ReadWrite).unwrap();
        address
    }

    /// Both members' memory bound at the start, and three addresses: of the object and of each memory.
    fn bound(config: SimConfig) -> (Self, [u64; 3]) {
        let team = Self::new(config);
        team.bind(0, 0).unwrap();
        team.bind(1, 0).unwrap();
        let addresses = [team.map(), team.map_memory(0), team.map_memory(1)];
        (team, addresses)
    }

    fn run(&self, device: u32, name: &str, arguments: &[u64]) -> Result<(), Error> {
        let module = self.machine.module_load(device, PTX, "tests/multicast.ptx").unwrap();
        let stream = self.machine.stream_create(device).unwrap();
        let function = self.machine.function(module, name).unwrap();
        let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
        let bytes: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.machine.launch(stream, function, shape, &bytes).unwrap();
        self.machine.stream_synchronize(stream)
    }

    fn words<const N: usize>(&self, device: u32, address: u64) -> [u32; N] {
        let mut bytes = vec![0; N * 4];
        self.machine.read(device, address, &mut bytes).unwrap();
        std::array::from_fn(|n| u32::from_le_bytes(bytes[4 * n..][..4].try_into().unwrap()))
    }
}

type Refusal = fn(&Team) -> Result<(), Error>;

/// What is asked, the code of the answer, and the call.
const REFUSALS: &[(&str, u32, Refusal)] = &[
    ("a team of none", 1, |t| t.machine.multicast_create(0, OBJECT).map(drop)),
    ("a team of more than there are", 1, |t| t.machine.multicast_create(4, OBJECT).map(drop)),
    ("an object of 0 bytes", 1, |t| t.machine.multicast_create(2, 0).map(drop)),
    ("an object of half a granule", 1, |t| t.machine.multicast_create(2, GRAIN / 2).map(drop)),
    ("a device twice", 1, |t| {
        let object = t.machine.multicast_create(2, GRAIN)?;
        t.machine.multicast_add_device(object, 0)?;
        t.machine.multicast_add_device(object, 0)
    }),
    ("one more device than the team has", 1, |t| t.machine.multicast_add_device(t.object, 2)),
    ("a device to memory", 1, |t| t.machine.multicast_add_device(t.memory[0], 2)),
    ("a device to a dead handle", 1, |t| t.machine.multicast_add_device(PhysicalHandle(99), 0)),
    ("bind memory of a device outside the team", 1, |t| t.bind(2, 0)),
    ("bind a device's memory over itself", 1, |t| t.bind(0, 0).and_then(|()| t.bind(0, GRAIN))),
    ("bind at half a granule", 1, |t| t.bind(0, GRAIN / 2)),
    ("bind past the end of the object", 1, |t| t.bind(0, 3 * GRAIN)),
    ("bind past the end of the memory", 1, |t| {
        t.machine.multicast_bind(t.object, 0, t.memory[0], GRAIN, MEMORY)
    }),
    ("bind half a granule", 1, |t| t.machine.multicast_bind(t.object, 0, t.memory[0], 0, GRAIN / 2)),
    ("bind from half a granule on", 1, |t| {
        t.machine.multicast_bind(t.object, 0, t.memory[0], GRAIN / 2, GRAIN)
    }),
    ("bind nothing", 1, |t| t.machine.multicast_bind(t.object, 0, t.memory[0], 0, 0)),
    ("bind an object", 1, |t| t.machine.multicast_bind(t.object, 0, t.object, 0, GRAIN)),
    ("bind to memory", 1, |t| t.machine.multicast_bind(t.memory[1], 0, t.memory[0], 0, GRAIN)),
    ("bind what cannot be exported", 1, |t| {
        let memory = t.machine.create_unexportable(0, GRAIN)?;
        t.machine.multicast_bind(t.object, 0, memory, 0, GRAIN)
    }),
    ("unbind what is not bound", 1, |t| t.machine.multicast_unbind(t.object, 0, 0, MEMORY)),
    ("unbind half of it", 1, |t| {
        t.bind(0, 0)?;
        t.machine.multicast_unbind(t.object, 0, 0, GRAIN)
    }),
    ("unbind another device's", 1, |t| {
        t.bind(0, 0)?;
        t.machine.multicast_unbind(t.object, 1, 0, MEMORY)
    }),
    ("unbind twice", 1, |t| {
        t.bind(0, 0)?;
        t.machine.multicast_unbind(t.object, 0, 0, MEMORY)?;
        t.machine.multicast_unbind(t.object, 0, 0, MEMORY)
    }),
    ("release an object with memory bound", 1, |t| {
        t.bind(0, 0)?;
        t.machine.mem_release(t.object)
    }),
    ("map half an object", 1, |t| {
        t.machine.mem_map(t.machine.address_reserve(OBJECT, 0, 0)?, OBJECT / 2, t.object)
    }),
    ("unmap half an object", 1, |t| t.machine.mem_unmap(t.map(), OBJECT / 2)),
    ("rights for a device outside the team", 1, |t| {
        t.machine.mem_set_access(t.map(), OBJECT, 2, Access::Read)
    }),
    ("write by the host", 1, |t| {
        t.bind(0, 0)?;
        t.machine.write(0, t.map(), &[0; 4])
    }),
    ("read by the host", 1, |t| t.machine.read(0, t.map(), &mut [0; 4])),
    ("facts of a multicast address", 1, |t| t.machine.pointer_facts(t.map()).map(drop)),
];

#[test]
fn refusals() {
    for (name, code, case) in REFUSALS {
        match case(&Team::new(config())).map_err(|error| error.kind().clone()) {
            Err(ErrorKind::Driver { code: found, .. }) if found == *code => {}
            other => panic!("{name}: expected CUresult {code}, found {other:?}"),
        }
    }
}

#[test]
fn machines_without_multicast_refuse_it() {
    let machine = |change: fn(&mut SimConfig)| {
        let mut config = config();
        change(&mut config);
        SimMachine::new(config).unwrap()
    };
    let old = machine(|config| config.sm = 80);
    assert!(!old.multicast_supported(0).unwrap());
    refused(old.multicast_granularity(2, GRAIN), 801);
    refused(old.multicast_create(2, GRAIN), 801);
    let one_lacks_it = machine(|config| config.multicast = Some(vec![true, true, false]));
    assert_eq!(
        [0, 1, 2].map(|device| one_lacks_it.multicast_supported(device).unwrap()),
        [true, true, false]
    );
    let object = one_lacks_it.multicast_create(2, GRAIN).unwrap();
    refused(one_lacks_it.multicast_add_device(object, 2), 801);
    let small = machine(|config| config.multicast_objects_max = 2);
    let objects = [0, 1].map(|_| small.multicast_create(2, GRAIN).unwrap());
    refused(small.multicast_create(2, GRAIN), 2);
    small.mem_release(objects[0]).unwrap();
    small.multicast_create(2, GRAIN).unwrap();
}

/// Each call with each code that real drivers give; a fault that happens once goes by.
#[test]
fn calls_fail_on_purpose() {
    for call in [MulticastCall::Create, MulticastCall::AddDevice, MulticastCall::Bind, MulticastCall::Map] {
        for code in [2, 401, 802] {
            let fault = MulticastFault { call, device: Some(1), code, n_times: 1 };
            let machine = SimMachine::new(SimConfig { multicast_fault: Some(fault), ..config() }).unwrap();
            let all = || -> Result<(), Error> {
                let object = machine.multicast_create(2, GRAIN)?;
                machine.multicast_add_device(object, 0)?;
                machine.multicast_add_device(object, 1)?;
                machine.multicast_bind(object, 0, machine.mem_create(0, GRAIN)?, 0, GRAIN)?;
                machine.multicast_bind(object, 0, machine.mem_create(1, GRAIN)?, 0, GRAIN)?;
                machine.mem_map(machine.address_reserve(GRAIN, 0, 0)?, GRAIN, object)
            };
            refused(all(), code);
            all().unwrap();
        }
    }
}

/// Who binds or maps waits until the last device is added.
#[test]
fn binding_and_mapping_wait_for_the_team() {
    let machine = SimMachine::new(SimConfig { stall_grace_ms: 60_000, ..config() }).unwrap();
    let object = machine.multicast_create(2, GRAIN).unwrap();
    machine.multicast_add_device(object, 0).unwrap();
    let memory = machine.mem_create(0, GRAIN).unwrap();
    let address = machine.address_reserve(GRAIN, 0, 0).unwrap();
    std::thread::scope(|scope| {
        let bound = scope.spawn(|| machine.multicast_bind(object, 0, memory, 0, GRAIN));
        let mapped = scope.spawn(|| machine.mem_map(address, GRAIN, object));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!bound.is_finished() && !mapped.is_finished());
        machine.multicast_add_device(object, 1).unwrap();
        bound.join().unwrap().unwrap();
        mapped.join().unwrap().unwrap();
    });
}

#[test]
fn a_team_that_nobody_completes_is_reported() {
    let machine = SimMachine::new(config()).unwrap();
    let object = machine.multicast_create(3, GRAIN).unwrap();
    machine.multicast_add_device(object, 2).unwrap();
    machine.multicast_add_device(object, 0).unwrap();
    let memory = machine.mem_create(0, GRAIN).unwrap();
    let bind = || machine.multicast_bind(object, 0, memory, 0, GRAIN);
    let waits = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rank 0".into());
        thread.spawn_scoped(scope, bind).unwrap().join().unwrap()
    });
    let ErrorKind::Deadlock { report } = waits.unwrap_err().kind().clone() else { panic!("no deadlock") };
    let expected = format!(
        "host threads wait for teams of multicast objects that nobody completes\n  \
         cuMulticastBindMem of thread `rank 0`: object {} waits for 1 of 3 devices to be added; added so far: [2, 0]",
        object.0
    );
    assert_eq!(report, expected);
    machine.multicast_add_device(object, 1).unwrap();
    bind().unwrap();
}

#[test]
fn stores_and_sums_reach_every_member() {
    let (team, [mc, first, second]) = Team::bound(config());
    team.run(0, "store", &[mc + 64, 40]).unwrap();
    assert_eq!([team.words(0, first + 64), team.words(1, second + 64)], [[40, 41, 42, 43]; 2]);
    team.run(1, "add", &[mc + 64, 2]).unwrap();
    assert_eq!([team.words(0, first + 64), team.words(1, second + 64)], [[42]; 2]);
    team.machine.write(0, first, &1.5_f32.to_le_bytes()).unwrap();
    team.machine.write(1, second, &2.25_f32.to_le_bytes()).unwrap();
    team.run(1, "sum", &[mc, second + 128]).unwrap();
    let bits = 1.5_f32.to_bits().wrapping_add(2.25_f32.to_bits());
    assert_eq!(team.words(1, second + 128), [bits, 3.75_f32.to_bits()]);
}

/// Where in its memory a device is bound may differ between devices.
#[test]
fn memory_may_be_bound_from_anywhere() {
    let team = Team::new(config());
    team.machine.multicast_bind(team.object, 2 * GRAIN, team.memory[0], GRAIN, GRAIN).unwrap();
    team.machine.multicast_bind(team.object, 2 * GRAIN, team.memory[1], 0, GRAIN).unwrap();
    let (mc, first, second) = (team.map(), team.map_memory(0), team.map_memory(1));
    team.run(0, "store", &[mc + 2 * GRAIN + 16, 7]).unwrap();
    assert_eq!([team.words(0, first + GRAIN + 16), team.words(1, second + 16)], [[7]; 2]);
}

#[test]
fn the_order_of_a_sum_is_the_seed_s() {
    let sum = |seed| {
        let n_devices = 8;
        let machine = SimMachine::new(SimConfig { n_devices, seed, ..SimConfig::default() }).unwrap();
        let object = machine.multicast_create(n_devices, GRAIN).unwrap();
        (0..n_devices).for_each(|device| machine.multicast_add_device(object, device).unwrap());
        let mc = machine.address_reserve(GRAIN, 0, 0).unwrap();
        machine.mem_map(mc, GRAIN, object).unwrap();
        machine.mem_set_access(mc, GRAIN, 0, Access::ReadWrite).unwrap();
        let mut first = 0;
        for device in (0..n_devices).rev() {
            let memory = machine.mem_create(device, GRAIN).unwrap();
            machine.multicast_bind(object, 0, memory, 0, GRAIN).unwrap();
            first = machine.address_reserve(GRAIN, 0, 0).unwrap();
            machine.mem_map(first, GRAIN, memory).unwrap();
            machine.mem_set_access(first, GRAIN, device, Access::ReadWrite).unwrap();
            let value = [1e8_f32, 1.0, -1e8, 3.0, 1e7, -1e7, 0.5, 7.0][device as usize];
            machine.write(device, first, &value.to_le_bytes()).unwrap();
        }
        let team = Team { machine, object, memory: [object; 3] };
        (0..4).for_each(|n| team.run(0, "sum", &[mc, first + 64 + 8 * n]).unwrap());
        team.words::<8>(0, first + 64)
    };
    let sums: Vec<_> = (0..8).map(sum).collect();
    assert_eq!(sums, (0..8).map(sum).collect::<Vec<_>>(), "a seed gives one order");
    assert!(sums.iter().any(|other| *other != sums[0]), "no seed gives another order: {sums:?}");
}

/// What a kernel does wrong, and a piece of the report.
#[test]
fn faults_of_kernels() {
    type Fault = fn(&Team, [u64; 3]) -> Result<(), Error>;
    let table: &[(Fault, &str)] = &[
        (|t, [mc, ..]| t.run(0, "plain_store", &[mc]), "a multicast address: only multimem instructions"),
        (|t, [mc, ..]| t.run(0, "plain_load", &[mc]), "a multicast address: only multimem instructions"),
        (|t, [_, uc, _]| t.run(0, "store", &[uc, 1]), "which is no multicast address"),
        (|t, [_, uc, _]| t.run(0, "sum", &[uc, uc + 64]), "which is no multicast address"),
        (|t, [mc, ..]| t.run(0, "store", &[mc + MEMORY, 1]), "where device 0 has nothing bound"),
        (|t, [mc, ..]| t.run(2, "store", &[mc, 1]), "which the device may not write"),
        (|t, [mc, ..]| t.run(0, "store", &[mc + 8, 1]), "not a multiple of 16"),
        (|t, [mc, ..]| t.run(0, "store", &[mc + OBJECT, 1]), "where nothing is mapped"),
        (
            |t, [mc, ..]| {
                t.machine.multicast_unbind(t.object, 1, 0, MEMORY)?;
                t.run(0, "store", &[mc, 1])
            },
            "where device 1 has nothing bound",
        ),
        (
            |t, [mc, ..]| {
                t.machine.mem_set_access(mc, OBJECT, 0, Access::Read)?;
                t.run(0, "store", &[mc, 1])
            },
            "which the device may not write",
        ),
    ];
    for (index, (fault, piece)) in table.iter().enumerate() {
        let (team, addresses) = Team::bound(config());
        match fault(&team, addresses).unwrap_err().kind() {
            ErrorKind::Fault { report } => assert!(report.contains(piece), "{index}: {report}"),
            other => panic!("{index}: {other:?}"),
        }
    }
}

#[test]
fn bound_memory_lives_until_it_is_unbound() {
    let (team, [mc, first, second]) = Team::bound(config());
    for (device, address) in [(0, first), (1, second)] {
        team.machine.mem_unmap(address, MEMORY).unwrap();
        team.machine.mem_release(team.memory[device]).unwrap();
    }
    team.run(0, "add", &[mc, 1]).unwrap();
    assert_eq!(team.machine.live().multicast_bindings, 2);
    for device in [0, 1] {
        let before = team.machine.memory_free_bytes(device).unwrap();
        team.machine.multicast_unbind(team.object, device, 0, MEMORY).unwrap();
        assert_eq!(team.machine.memory_free_bytes(device).unwrap(), before + MEMORY);
    }
}

/// The object is the same in another machine, as it is in another process, and so is what is bound; memory must be
/// imported there before kernels reach it.
#[test]
fn an_exported_object_is_the_same_elsewhere() {
    let team = Team::new(config());
    team.bind(0, 0).unwrap();
    let other = SimMachine::new(config()).unwrap();
    let fd = team.machine.mem_export(team.object).unwrap();
    let object = other.mem_import(fd.as_fd()).unwrap();
    assert_ne!(other.mem_import(fd.as_fd()).unwrap(), object, "a handle of its own");
    refused(other.multicast_add_device(object, 2), 1);
    let memory = other.mem_create(1, MEMORY).unwrap();
    other.multicast_bind(object, 0, memory, 0, MEMORY).unwrap();
    let elsewhere = Team { machine: other.clone(), object, memory: [memory; 3] };
    let (mc, second) = (elsewhere.map(), elsewhere.map_memory(1));
    let error = elsewhere.run(1, "store", &[mc, 5]).unwrap_err().to_string();
    assert!(error.contains("another process has bound memory of device 0"), "{error}");
    let imported = other.mem_import(team.machine.mem_export(team.memory[0]).unwrap().as_fd()).unwrap();
    elsewhere.run(1, "store", &[mc, 5]).unwrap();
    assert_eq!([team.words(0, team.map_memory(0)), elsewhere.words(1, second)], [[5]; 2]);
    other.mem_release(imported).unwrap();
    other.multicast_unbind(object, 1, 0, MEMORY).unwrap();
    refused(other.multicast_unbind(object, 0, 0, MEMORY), 1);
    team.machine.multicast_unbind(team.object, 0, 0, MEMORY).unwrap();
}

proptest! {
    /// Any sequence of binding and unbinding granules is allowed exactly where a table of what is bound allows it, and a
    /// kernel's store reaches exactly what is bound.
    #[test]
    fn sequences_of_bindings(
        steps in prop::collection::vec((any::<bool>(), 0_u32..2, 0_u64..4, 0_u64..2), 1..24),
    ) {
        let team = Team::new(config());
        let mut bound: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for (binds, device, at, from) in steps {
            let (offset, memory) = (at * GRAIN, team.memory[device as usize]);
            if binds {
                let result = team.machine.multicast_bind(team.object, offset, memory, from * GRAIN, GRAIN);
                prop_assert_eq!(result.is_ok(), !bound.contains_key(&(device, at)));
                bound.entry((device, at)).or_insert(from);
            } else {
                let result = team.machine.multicast_unbind(team.object, device, offset, GRAIN);
                prop_assert_eq!(result.is_ok(), bound.remove(&(device, at)).is_some());
            }
        }
        prop_assert_eq!(team.machine.live().multicast_bindings, bound.len());
        let (mc, own) = (team.map(), [0, 1].map(|device| team.map_memory(device)));
        for at in 0..4 {
            let places: Vec<_> = [0, 1].iter().filter_map(|&device| Some((device, *bound.get(&(device, at))?))).collect();
            let stored = team.run(0, "store", &[mc + at * GRAIN + 64 * at, 100 + at]);
            prop_assert_eq!(stored.is_ok(), places.len() == 2);
            for (device, from) in places.iter().filter(|_| places.len() == 2) {
                let address = own[*device as usize] + from * GRAIN + 64 * at;
                prop_assert_eq!(team.words(*device, address), [100 + at as u32]);
            }
        }
        for (device, at) in bound.into_keys() {
            team.machine.multicast_unbind(team.object, device, at * GRAIN, GRAIN).unwrap();
        }
        team.machine.mem_unmap(mc, OBJECT).unwrap();
        team.machine.mem_release(team.object).unwrap();
    }
}
