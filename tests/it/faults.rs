//! The program under faults: killed at random moments, traced, on full and read-only disks, and
//! with bugs planted on purpose, so that the checker of all this is seen to complain.
//!
//! `PAYFOLD_KILLS` (10) says how often the program is killed, `PAYFOLD_CLUSTER_FAULTS` (each kind
//! once) how many faults strike a cluster; `PAYFOLD_SEED` repeats a run's random choices.

mod checker;
mod child;
mod cluster;
mod creates;
mod full_disk;
mod load;
mod lost;
mod lost_files;
mod planted;
mod traced;
mod trial;
