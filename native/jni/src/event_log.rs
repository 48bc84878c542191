//! A job's event log, where its user wants one: what the tracker reports, written down as the driver takes it;
//! what it hasn't taken when it closes the tracker, then.

use crate::facts;
use rejoin_agent::event_log::{Fact, Recorder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::transport::JobId;
use rejoin_agent::TrackerNotice;
use std::path::Path;

/// The log of one job, from its tracker's start to the job's end.
pub(crate) struct EventLog {
    recorder: Recorder,
    job: String,
    is_over: bool,
    failure_is_told: bool,
}

impl EventLog {
    /// Begins `JOB.jsonl` in this folder, which is made if it isn't there; of a later life of the tracker
    /// `JOB-LIFE.jsonl`. `name` is what the job is called, `faults` are its rules as texts.
    pub(crate) fn begin(
        folder: &Path,
        name: &str,
        faults: &str,
        (job, life): (JobId, u32),
        world: u32,
    ) -> Result<EventLog, Error> {
        let life = if life > 1 { format!("-{life}") } else { String::new() };
        let path = folder.join(format!("{job}{life}.jsonl"));
        let recorder = std::fs::create_dir_all(folder).and_then(|()| Recorder::new(Some(&path))).map_err(|cause| {
            let path = path.display();
            Error::new(
                Code::BadArgument,
                format!(
                    "the event log {path} can't be made: {cause}; see that the folder can be written to, or set none"
                ),
            )
        })?;
        let mut log = EventLog { recorder, job: job.to_string(), is_over: false, failure_is_told: false };
        log.recorder.begins(world, vec![name.to_owned()], facts::rules(faults).map(str::to_owned).collect());
        log.tell();
        Ok(log)
    }

    /// The tracker has reported this; what isn't an event isn't in the log.
    pub(crate) fn notice(&mut self, notice: &TrackerNotice) {
        if let TrackerNotice::Event(event) = notice {
            self.event(event);
        }
    }

    fn event(&mut self, event: &Event) {
        let end = match event {
            Event::JobEnded { .. } => Some((0, "all ranks have reached the end".to_owned())),
            Event::JobFailed { error } => Some((1, error.to_string())),
            _ => None,
        };
        self.recorder.event(event.clone());
        if let Some((status, reason)) = end {
            self.end(status, reason);
        }
        self.tell();
    }

    /// Nothing more comes.
    pub(crate) fn close(&mut self) {
        self.end(1, "the driver has closed the job's tracker before all ranks were at the end".to_owned());
    }

    fn end(&mut self, status: u8, reason: String) {
        if !self.is_over {
            self.is_over = true;
            self.fact(Fact::Over { status, reason });
        }
    }

    fn fact(&mut self, fact: Fact) {
        self.recorder.fact(None, fact);
        self.tell();
    }

    fn tell(&mut self) {
        if let Some(cause) = self.recorder.failure().filter(|_| !self.failure_is_told) {
            log::warn!("[job {}] the event log can't be written to its end: {cause}", self.job);
            self.failure_is_told = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::event_log::{read, What};

    const JOB: JobId = JobId([7; 16]);

    fn last(path: &Path) -> What {
        read(path).unwrap().pop().unwrap().what
    }

    #[test]
    fn a_job_is_told_from_its_beginning_to_the_one_end_that_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("made");
        let rule = "rank=1,at=join";
        let mut log = EventLog::begin(&inner, "train", rule, (JOB, 1), 3).unwrap();
        let path = inner.join(format!("{}.jsonl", "07".repeat(16)));
        let What::Launcher(Fact::Began { world, command, rules, .. }) = last(&path) else { panic!("it begins") };
        assert_eq!((world, command, rules), (3, vec!["train".to_owned()], vec![rule.to_owned()]));
        // That of a later life stands beside it.
        EventLog::begin(&inner, "train", rule, (JOB, 2), 3).unwrap();
        assert!(inner.join(format!("{}-2.jsonl", "07".repeat(16))).exists());
        log.event(&Event::JobEnded { digest: 5, deaths: 0 });
        log.close();
        assert_eq!(
            last(&path),
            What::Launcher(Fact::Over { status: 0, reason: "all ranks have reached the end".into() })
        );
        assert_eq!(read(&path).unwrap().len(), 3);

        let mut log = EventLog::begin(&inner, "train", "", (JOB, 1), 3).unwrap();
        log.close();
        assert!(matches!(last(&path), What::Launcher(Fact::Over { status: 1, .. })));
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_refused_with_the_file() {
        let error = EventLog::begin(Path::new("/dev/null"), "train", "", (JOB, 1), 3).map(drop).unwrap_err();
        assert_eq!(error.code, Code::BadArgument);
        assert!(error.message.contains("/dev/null/0707"), "{error}");
    }
}
