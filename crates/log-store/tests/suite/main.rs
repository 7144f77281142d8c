//! Whole-log tests: against a model, cut at every byte, failing at every write, read by many.

#[cfg(test)]
mod budget;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod files;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod model;
#[cfg(test)]
mod search;
#[cfg(test)]
mod support;
