//! Both stores keep every promise of the port.

use ravel_store::conformance::Cluster;
use ravel_store::{Memory, Sqlite};

struct InMemory(Memory);

impl Cluster for InMemory {
    type Process = Memory;

    fn process(&self) -> Memory {
        self.0.another()
    }
}

struct OnDisk(tempfile::TempDir);

impl Cluster for OnDisk {
    type Process = Sqlite;

    fn process(&self) -> Sqlite {
        Sqlite::open(self.0.path().join("store.db")).expect("the store opens")
    }
}

mod memory {
    use super::*;

    ravel_store::conformance_tests!(InMemory(Memory::new()));
}

mod sqlite {
    use super::*;

    ravel_store::conformance_tests!(OnDisk(tempfile::tempdir().unwrap()));
}
