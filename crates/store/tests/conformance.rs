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

#[test]
fn all_who_open_a_new_store_at_once_get_it() {
    const OPENERS: usize = 4;
    for _ in 0..25 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let refused: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..OPENERS)
                .map(|_| scope.spawn(|| Sqlite::open(&path).err()))
                .collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().unwrap())
                .map(|error| error.to_string())
                .collect()
        });
        assert_eq!(refused, Vec::<String>::new());
    }
}
