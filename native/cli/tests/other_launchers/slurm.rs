//! Slurm: a controller and three nodes of its own on this machine, with an own munge, in a temporary folder.

use crate::harness::{example, signal, until, Ran};
use crate::jobs::{digest, undisturbed, Job, Started, ITERATIONS};
use crate::ports::free_ports;
use crate::processes::{dies_with_test, kill_rank, parent, with};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NODES: [&str; 3] = ["a", "b", "c"];
const PACKAGE: &str = "slurm-wlm munge";

struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<(String, Child)>,
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().expect("it can be run").stdout).expect("text").trim().to_string()
}

impl Cluster {
    /// Returns when all nodes are idle.
    fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        };
        // The folder of munge's socket has to be open for all.
        mode(folder.path(), 0o755);
        let mut cluster = Cluster { folder, daemons: Vec::new() };
        let key: Vec<u8> = (0..1024_u32).map(|byte| (byte * 7 % 251) as u8 ^ std::process::id() as u8).collect();
        std::fs::write(cluster.path("key"), key).expect("room for a key");
        mode(Path::new(&cluster.path("key")), 0o400);
        for name in ["state", "spool-a", "spool-b", "spool-c"] {
            std::fs::create_dir(cluster.path(name)).expect("a folder");
        }
        let mut munge = dies_with_test("munged", PACKAGE);
        munge.args(["--force", "--foreground"]);
        for (option, name) in [
            ("key-file", "key"),
            ("socket", "socket"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "seed"),
        ] {
            munge.arg(format!("--{option}={}", cluster.path(name)));
        }
        cluster.daemon("munged", &mut munge);
        let socket = cluster.path("socket");
        until("munge listens", || Path::new(&socket).exists());
        std::fs::write(cluster.path("slurm.conf"), cluster.settings()).expect("room for a file");
        let settings = cluster.path("slurm.conf");
        cluster.daemon("slurmctld", dies_with_test("slurmctld", PACKAGE).args(["-D", "-f", &settings]));
        for node in NODES {
            cluster.daemon(node, dies_with_test("slurmd", PACKAGE).args(["-D", "-N", node, "-f", &settings]));
        }
        until("all nodes are idle", || {
            for (name, daemon) in &mut cluster.daemons {
                assert!(
                    matches!(daemon.try_wait(), Ok(None)),
                    "{name} has ended; see {}",
                    cluster.folder.path().display()
                );
            }
            cluster.idle() == NODES.len()
        });
        cluster
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn settings(&self) -> String {
        let host = output(Command::new("hostname").arg("-s"));
        let ports = free_ports(1 + NODES.len());
        let (user, at) = (output(Command::new("id").arg("-un")), self.folder.path().display());
        let mut text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/socket,cred_expire=5\nCredType=cred/munge\nProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\nSlurmdTimeout=5\nMessageTimeout=5\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
             SlurmdPidFile={at}/slurmd-%n.pid\nSlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd-%n.log\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             PartitionName=all Nodes=a,b,c Default=YES MaxTime=INFINITE State=UP\n",
            ports[0]
        );
        for (node, port) in NODES.iter().zip(&ports[1..]) {
            text +=
                &format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN\n");
        }
        text
    }

    fn daemon(&mut self, name: &str, command: &mut Command) {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemons.push((name.into(), quiet.spawn().expect("setpriv is there")));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = dies_with_test(program, PACKAGE);
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    fn idle(&self) -> usize {
        output(self.command("sinfo").args(["-h", "-N", "-t", "idle"])).lines().count()
    }

    /// `srun` on these nodes, with these options; each task's host is named as its node.
    fn srun(&self, job: &Job, name: &str, options: &[&str], ranks: &str) -> Started {
        let (rejoin, join, program) = (env!("CARGO_BIN_EXE_rejoin"), job.path("join"), example("scenario"));
        let script = format!(
            "exec {rejoin} run --join {join} {ranks} --host $SLURMD_NODENAME --restart --timeout 50s -- {program} \
             {ITERATIONS}"
        );
        let mut command = self.command("srun");
        command.args(options).args(["--kill-on-bad-exit=0", "--no-kill", "sh", "-c", &script]);
        job.start_command(name, &mut command)
    }

    /// The death of a node: its daemon, what looks after its tasks, and these.
    fn kill(&mut self, job: &Job, node: &str) {
        let on_node = [format!("REJOIN_HOST={node}"), format!("REJOIN_JOIN={}", job.path("join"))];
        let index = self.daemons.iter().position(|(name, _)| name == node).expect("it was started");
        let (_, mut daemon) = self.daemons.remove(index);
        daemon.kill().expect("it is this process's child");
        daemon.wait().expect("it is this process's child");
        let launchers: Vec<u32> = with(&on_node).into_iter().filter_map(parent).collect();
        let mut steps: Vec<u32> = launchers.iter().copied().filter_map(parent).collect();
        steps.sort();
        steps.dedup();
        assert!(!steps.is_empty(), "something looks after the tasks of node {node}");
        for pid in steps.into_iter().chain(launchers) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ =
            self.command("scancel").args(["--signal=KILL", "--user", &output(Command::new("id").arg("-un"))]).status();
        for (_, daemon) in &mut self.daemons {
            signal(daemon.id(), "TERM");
            let _ = daemon.wait();
        }
    }
}

fn ended(started: &mut Started) -> Ran {
    started.ended().ended(0)
}

#[test]
fn a_rank_under_srun_that_is_killed_is_started_again_below_it_and_the_model_is_that_of_an_undisturbed_run() {
    let cluster = Cluster::start();
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let mut all = cluster.srun(&job, "all", &["-w", "a,b", "-n", "4", "--ntasks-per-node=2"], "--rank auto");
    job.is_under_way();
    kill_rank(&job, 2);
    let all = ended(&mut all);
    all.says("rank 2 died (SIGKILL); attempt 1 starts");
    assert_eq!(digest(&[&all]), undisturbed());
    ended(&mut tracker);
}

#[test]
#[ignore = "in make test-long"]
fn the_ranks_of_a_node_that_is_gone_go_on_where_another_srun_starts_them() {
    let mut cluster = Cluster::start();
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let mut all = cluster.srun(&job, "all", &["-w", "a,b", "-n", "4", "--ntasks-per-node=2"], "--rank auto");
    job.is_under_way();
    cluster.kill(&job, "b");
    let mut c = cluster.srun(&job, "c", &["-w", "c", "-n", "1"], "--ranks 2-3");
    let c = ended(&mut c);
    ended(&mut tracker).says("rank 2 has joined as incarnation 1 (process 2.1)");
    // Slurm finds out by itself, after its SlurmdTimeout.
    let all = all.ended();
    all.says("Node failure on b");
    assert!(!all.err.contains("rank 0 died") && !all.err.contains("rank 1 died"), "node a's go on: {}", all.err);
    assert_eq!(digest(&[&all, &c]), undisturbed());
}

/// The guide's job script, in this folder and with this program.
fn job_script(folder: &str, program: &str) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/launchers.md");
    let guide = std::fs::read_to_string(guide).expect("the guide is there");
    let block = guide.split("```").find(|block| block.contains("scontrol requeue"));
    let script = block.and_then(|block| block.strip_prefix("sh\n")).expect("the guide has the script");
    format!("#!/bin/sh\n{}", script.replace("/shared", folder).replace("./loop", program))
}

#[test]
fn the_guides_job_script_ends_with_the_status_of_its_srun() {
    let job = Job::new();
    let script = job_script(job.path("").trim_end_matches('/'), "/nowhere/program");
    // One that starts the one task here.
    let command = "PATH=$1:$PATH; srun() { env SLURM_PROCID=0 \"$@\"; }; eval \"$0\"";
    let folder = Path::new(env!("CARGO_BIN_EXE_rejoin")).parent().expect("a folder").display().to_string();
    let mut shell = Command::new("sh");
    shell.args(["-c", command, &script, &folder]).env("SLURM_JOB_ID", "1").env("SLURM_NTASKS", "1");
    job.start_command("script", &mut shell).ended().ended(127).says("/nowhere/program can't be run");
}

#[test]
#[ignore = "in make test-long"]
fn the_guides_job_script_asks_to_be_queued_again_when_its_time_is_up_and_goes_on_from_its_newest_version() {
    let cluster = Cluster::start();
    let job = Job::new();
    let (script, log, folder) = (job.path("job.sh"), job.path("job.log"), job.path(""));
    let program = format!("{} {ITERATIONS}", example("scenario"));
    std::fs::write(&script, job_script(folder.trim_end_matches('/'), &program)).expect("room for a script");
    let path = format!(
        "{}:{}",
        Path::new(env!("CARGO_BIN_EXE_rejoin")).parent().expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    let options = ["--parsable", "--requeue", "--signal=B:TERM@60", "-n", "4", "--open-mode=append", "--output", &log];
    let id = output(cluster.command("sbatch").env("PATH", &path).args(options).arg(&script));
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let checkpoints = || std::fs::read_dir(job.path("checkpoints")).into_iter().flatten().count();
    until("durable checkpoints are there", || checkpoints() > 2);
    // What Slurm sends when the time is nearly up.
    output(cluster.command("scancel").args(["--batch", "--signal=TERM", &id]));
    until("the job is queued again", || text().contains("ended by SIGTERM"));
    // Slurm starts it again when the credentials of the first run are too old to be used.
    until("the job has ended", || {
        let state = output(cluster.command("scontrol").args(["show", "job", &id]));
        assert!(!state.contains("JobState=FAILED"), "{state}\n{}", text());
        state.contains("JobState=COMPLETED")
    });
    let text = text();
    let (first, second) = text.rsplit_once("tracker of job training").expect("a second tracker");
    assert!(first.contains("tracker of job training") && !first.contains("digest "), "{text}");
    assert!(!second.contains("starts at version 0 "), "{text}");
    let ran = Ran { status: Some(0), out: second.into(), err: String::new() };
    assert_eq!(digest(&[&ran]), undisturbed(), "{text}");
}
