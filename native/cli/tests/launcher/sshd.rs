//! A real sshd for each host: loopback addresses of this machine, each with a server, keys and a configuration of its
//! own in a temporary folder. Nothing of the user's is read or changed.

use crate::harness::signal;
use crate::jobs::children;
use crate::ports::free_ports;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Hosts that ssh reaches.
pub struct Hosts {
    folder: tempfile::TempDir,
    port: u16,
    servers: Vec<(String, Child)>,
    /// The network namespaces that servers are started in, by their addresses.
    namespaces: BTreeMap<String, String>,
}

fn made(command: &mut Command) {
    let ran = command.stdout(Stdio::null()).status();
    assert!(ran.is_ok_and(|status| status.success()), "{command:?} fails; apt-get install openssh-server");
}

impl Hosts {
    /// A server at each of these addresses.
    pub fn at(addresses: &[&str]) -> Hosts {
        Hosts::within(addresses, BTreeMap::new())
    }

    /// The same, each in the namespace that is named for its address.
    pub fn within(addresses: &[&str], namespaces: BTreeMap<String, String>) -> Hosts {
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_ports(1)[0];
        let mut hosts = Hosts { folder, port, servers: Vec::new(), namespaces };
        for key in ["host", "user"] {
            made(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(hosts.path(key)));
        }
        std::fs::copy(hosts.path("user.pub"), hosts.path("authorized")).expect("room for a key");
        let key = std::fs::read_to_string(hosts.path("host.pub")).expect("a key");
        std::fs::write(hosts.path("known"), format!("* {key}")).expect("room for a key");
        let path = |name: &str| hosts.path(name);
        let client = format!(
            "Host *\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n BatchMode yes\n \
             StrictHostKeyChecking yes\n LogLevel ERROR\n",
            path("user"),
            path("known")
        );
        std::fs::write(path("client"), client).expect("room for a file");
        let server = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nLogLevel ERROR\n",
            path("host"),
            path("authorized")
        );
        std::fs::write(path("server"), server).expect("room for a file");
        // Debian's service makes it; root's sshd asks for it.
        let _ = std::fs::create_dir("/run/sshd");
        for address in addresses {
            hosts.start(address);
        }
        hosts
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Starts a host's server, again if it was killed.
    pub fn start(&mut self, address: &str) {
        let program = "/usr/sbin/sshd";
        assert!(Path::new(program).exists(), "expected {program}; install it: apt-get install openssh-server");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(namespace) = self.namespaces.get(address) {
            command.args(["ip", "netns", "exec", namespace]);
        }
        command.args([program, "-D", "-e", "-f", &self.path("server")]);
        command.args(["-p", &self.port.to_string(), "-o", &format!("ListenAddress={address}")]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("setpriv is there");
        self.servers.push((address.into(), child));
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect((address, self.port)).is_err() {
            assert!(Instant::now() < until, "the sshd at {address} never listens");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A host's death: its server, and all that it has started. Nobody can log in there after that.
    pub fn kill(&mut self, address: &str) {
        let index = self.servers.iter().position(|(own, _)| own == address).expect("it was started");
        let (_, mut server) = self.servers.remove(index);
        // Stopped first, so that nothing is started meanwhile.
        let mut all = vec![server.id()];
        let mut next = 0;
        while next < all.len() {
            signal(all[next], "STOP");
            all.extend(children(all[next]));
            next += 1;
        }
        for pid in all {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
        server.wait().expect("it is this process's child");
    }

    /// The client's command, as `ssh -F FILE`.
    pub fn client(&self) -> String {
        format!("ssh -F {}", self.path("client"))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for (_, server) in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
