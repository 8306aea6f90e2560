//! The catalog of peers, their prerequisites, and checks for these.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use std::io::Write;

/// Other middleware, and the program that measures it.
#[derive(Debug)]
pub struct Peer {
    /// Name on the command line.
    pub name: &'static str,
    /// Name for people.
    pub product: &'static str,
    /// Files of the program: path below its folder, and content.
    pub sources: &'static [(&'static str, &'static str)],
    /// Programs needed to build it.
    pub tools: &'static [Tool],
    /// A header of the middleware, for middleware whose library must be installed: both are installed together.
    pub header: Option<Header>,
    /// Commands that run in this order in the folder with the sources; a program with a slash in its name is below it.
    /// The result is called `agent.new`.
    pub steps: &'static [&'static [&'static str]],
}

/// A program needed to build.
#[derive(Debug)]
pub struct Tool {
    /// Its name on PATH.
    pub name: &'static str,
    /// Its Debian package.
    pub package: &'static str,
}

/// A header needed to build.
#[derive(Debug)]
pub struct Header {
    /// Path as in an `#include`.
    pub path: &'static str,
    /// The compiler that must find it.
    pub compiler: &'static str,
    /// Its language, as in `-x`.
    pub language: &'static str,
    /// Its Debian package.
    pub package: &'static str,
}

/// Locations of tools and built programs.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Value of PATH.
    pub path: OsString,
    /// Folder for built programs; its parents may not exist yet.
    pub cache: Option<PathBuf>,
}

/// A missing prerequisite of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The missing item.
    pub what: String,
    /// Its Debian package.
    pub package: &'static str,
}

/// Builds the program of a peer in Rust from the crates in its lock file.
const fn rust_peer(
    name: &'static str,
    product: &'static str,
    sources: &'static [(&'static str, &'static str)],
    steps: &'static [&'static [&'static str]],
) -> Peer {
    let tools = &[Tool { name: "cargo", package: "rustup" }, Tool { name: "cp", package: "coreutils" }];
    Peer { name, product, sources, tools, header: None, steps }
}

/// Files and steps of a peer in Rust, from the name of its folder.
macro_rules! rust_peer {
    ($name:literal, $product:literal) => {
        rust_peer(
            $name,
            $product,
            &[
                ("common/agent.rs", include_str!("../../agents/common/agent.rs")),
                (concat!($name, "/Cargo.toml"), include_str!(concat!("../../agents/", $name, "/Cargo.toml"))),
                (concat!($name, "/Cargo.lock"), include_str!(concat!("../../agents/", $name, "/Cargo.lock"))),
                (concat!($name, "/src/main.rs"), include_str!(concat!("../../agents/", $name, "/src/main.rs"))),
            ],
            &[
                &[
                    "cargo",
                    "build",
                    "--release",
                    "--locked",
                    "--target-dir",
                    "target",
                    "--manifest-path",
                    concat!($name, "/Cargo.toml"),
                ],
                &["cp", "target/release/agent", "agent.new"],
            ],
        )
    };
}

/// Compiles a program in C from these files, with these options and libraries.
macro_rules! compiled_c {
    ($($word:literal),+) => {
        &["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-I.", "-o", "agent.new", $($word,)+ "-pthread"]
    };
}

const AGENT_H: (&str, &str) = ("agent.h", include_str!("../../agents/common/agent.h"));

const CYCLONE_SOURCES: &[(&str, &str)] = &[
    AGENT_H,
    ("agent.c", include_str!("../../agents/cyclonedds/agent.c")),
    ("scale.c", include_str!("../../agents/cyclonedds/scale.c")),
    ("scale.h", include_str!("../../agents/cyclonedds/scale.h")),
    ("sample.idl", include_str!("../../agents/cyclonedds/sample.idl")),
];
const CYCLONE_HEADER: Option<Header> =
    Some(Header { path: "dds/dds.h", compiler: "gcc", language: "c", package: "cyclonedds-dev" });
const CYCLONE_IDL: &[&str] = &["idlc", "-l", "c", "sample.idl"];
const GCC: Tool = Tool { name: "gcc", package: "gcc" };
const IDLC: Tool = Tool { name: "idlc", package: "cyclonedds-tools" };

/// Every peer, in the order of the tables.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "cyclonedds",
        product: "Cyclone DDS",
        sources: CYCLONE_SOURCES,
        tools: &[GCC, IDLC],
        header: CYCLONE_HEADER,
        steps: &[CYCLONE_IDL, compiled_c!("agent.c", "scale.c", "sample.c", "-lddsc")],
    },
    // The Python wheel contains the library but no headers. The headers of 0.10 serve: the types that the program uses
    // have the same layout in 11.
    Peer {
        name: "cyclonedds-11",
        product: "Cyclone DDS 11",
        sources: CYCLONE_SOURCES,
        tools: &[
            GCC,
            IDLC,
            Tool { name: "python3", package: "python3-venv" },
            Tool { name: "ln", package: "coreutils" },
        ],
        header: CYCLONE_HEADER,
        steps: &[
            CYCLONE_IDL,
            &["python3", "-m", "venv", "venv"],
            &[
                "venv/bin/python",
                "-m",
                "pip",
                "install",
                "--disable-pip-version-check",
                "--no-deps",
                "--upgrade",
                "--target",
                "wheel",
                "cyclonedds==11.0.1",
            ],
            &["ln", "-sf", "libddsc.so", "wheel/cyclonedds/.libs/libddsc.so.11"],
            compiled_c!(
                "-DLIBRARY_VERSION=\"11.0.1\"",
                "agent.c",
                "scale.c",
                "sample.c",
                "wheel/cyclonedds/.libs/libddsc.so.11",
                "-Wl,-rpath,$ORIGIN/wheel/cyclonedds/.libs"
            ),
        ],
    },
    Peer {
        name: "fastdds",
        product: "Fast DDS",
        sources: &[AGENT_H, ("agent.cpp", include_str!("../../agents/fastdds/agent.cpp"))],
        tools: &[Tool { name: "g++", package: "g++" }],
        header: Some(Header {
            path: "fastrtps/config.h",
            compiler: "g++",
            language: "c++",
            package: "libfastrtps-dev",
        }),
        steps: &[&[
            "g++",
            "-std=c++17",
            "-O2",
            "-Wall",
            "-Wextra",
            "-o",
            "agent.new",
            "agent.cpp",
            "-lfastrtps",
            "-lfastcdr",
            "-pthread",
        ]],
    },
    rust_peer!("iceoryx2", "iceoryx2"),
    rust_peer!("zenoh", "zenoh"),
    rust_peer!("rustdds", "RustDDS"),
    rust_peer!("dustdds", "Dust DDS"),
];

/// The peer with this name.
pub fn find(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            cache: cache.map(|cache| cache.join("peregrine-perftest")),
        }
    }

    /// The file that a command with this name would run.
    pub fn find_tool(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(name)).find(|file| is_executable(file))
    }
}

impl Peer {
    /// Missing prerequisites of the build.
    pub fn missing(&self, environment: &Environment) -> Vec<Missing> {
        let lacks_tool = |tool: &&Tool| environment.find_tool(tool.name).is_none();
        let mut missing: Vec<Missing> = self
            .tools
            .iter()
            .filter(lacks_tool)
            .map(|tool| Missing { what: format!("the program {}", tool.name), package: tool.package })
            .collect();
        if let Some(header) = self.header.as_ref().filter(|header| !header.is_found(environment)) {
            missing.push(Missing { what: format!("the header {}", header.path), package: header.package });
        }
        missing
    }

    /// The folder of its build.
    pub fn folder(&self, environment: &Environment) -> Option<PathBuf> {
        environment.cache.as_ref().map(|cache| cache.join(self.name))
    }
}

impl Header {
    fn is_found(&self, environment: &Environment) -> bool {
        let Some(compiler) = environment.find_tool(self.compiler) else { return false };
        let preprocess = || -> std::io::Result<bool> {
            let mut child = Command::new(compiler)
                .args(["-E", "-x", self.language, "-"])
                .env("PATH", &environment.path)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A compiler that ends without reading reports by its status.
                let _ = writeln!(stdin, "#include <{}>", self.path);
            }
            Ok(child.wait()?.success())
        };
        preprocess().unwrap_or(false)
    }
}

/// The command that installs the missing items.
pub fn install_command(missing: &[Missing]) -> String {
    let mut packages: Vec<_> = missing.iter().map(|missing| missing.package).collect();
    packages.sort_unstable();
    packages.dedup();
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

fn is_executable(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A folder for PATH, with programs that end with the given status.
    fn path_with(name: &str, programs: &[(&str, u8)]) -> Environment {
        let folder = std::env::temp_dir().join(format!("perftest-path-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (program, status) in programs {
            let file = folder.join(program);
            fs::write(&file, format!("#!/bin/sh\nexit {status}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Environment { path: folder.into_os_string(), cache: None }
    }

    #[test]
    fn empty_path_lacks_everything_and_the_command_names_the_packages() {
        let environment = path_with("empty", &[]);
        let missing = find("cyclonedds").unwrap().missing(&environment);
        let what: Vec<_> = missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(what, ["the program gcc", "the program idlc", "the header dds/dds.h"]);
        let command = "apt-get install --no-install-recommends cyclonedds-dev cyclonedds-tools gcc";
        assert_eq!(install_command(&missing), command);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn compiler_without_the_header_lacks_the_library() {
        let environment = path_with("header", &[("g++", 1)]);
        let missing = find("fastdds").unwrap().missing(&environment);
        let what = "the header fastrtps/config.h".to_owned();
        assert_eq!(missing, [Missing { what, package: "libfastrtps-dev" }]);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn complete_environment_lacks_nothing() {
        let environment = path_with("all", &[("gcc", 0), ("idlc", 0)]);
        assert_eq!(find("cyclonedds").unwrap().missing(&environment), []);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn file_without_execute_permission_is_not_a_program() {
        let environment = path_with("mode", &[("g++", 0)]);
        let file = Path::new(&environment.path).join("g++");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(environment.find_tool("g++"), None);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn build_steps_use_listed_tools_and_end_with_the_program() {
        for peer in PEERS {
            for step in peer.steps {
                let is_listed = peer.tools.iter().any(|tool| Some(&tool.name) == step.first());
                let is_made_here = step.first().is_some_and(|program| program.contains('/'));
                assert!(is_listed || is_made_here, "{}: {step:?}", peer.name);
            }
            assert!(peer.steps.last().unwrap().contains(&"agent.new"), "{}", peer.name);
        }
    }
}
