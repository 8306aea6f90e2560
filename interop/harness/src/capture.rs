//! Recording of network traffic, and the complaints of an independent decoder about it.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::lab::NetNs;

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// The kernel collects packets for up to 250 ms before the recorder gets them.
const GATHERING: Duration = Duration::from_millis(400);
/// The interface on which a recording ends with a datagram of its own.
const LOOPBACK: &str = "lo";
/// The destination of that datagram, which nothing receives.
const END_PORT: u16 = 9;
/// Memory of the kernel for packets that the recorder has not written yet.
const BUFFER_MIB: &str = "256";

/// Packets that are not RTPS (no other protocol is used on these networks), that the decoder calls malformed, or for
/// which the decoder has expert information of severity warning or error. Notes and chats are not complaints. Datagrams
/// of a single byte are not complaints either: Cyclone DDS wakes its own receive threads with them when it shuts down.
/// Port 9 is [`END_PORT`].
const COMPLAINTS: &str =
    "udp.length > 9 && udp.dstport != 9 && (!rtps || _ws.malformed || _ws.expert.severity >= 0x00600000)";

/// The decoder identifies a datagram by its content, not by its ports: the kernel may choose a source port that is
/// registered for another protocol.
const CONTENT_FIRST: [&str; 2] = ["-o", "udp.try_heuristic_first:TRUE"];

/// A running recording of an interface.
#[derive(Debug)]
pub struct Capture {
    recorder: Child,
    /// The recorder's own messages; the sender is dropped when it ends.
    messages: Receiver<String>,
    file: PathBuf,
    /// Writes the packets to the file, until the recorder ends.
    writer: Option<JoinHandle<std::io::Result<()>>>,
    /// Sends the last datagram of the recording; `None` if the interface is not the loopback one.
    mark: Option<Command>,
    /// That datagram is in the file.
    marked: Receiver<()>,
}

/// A finished recording; its file is deleted on drop.
#[derive(Debug)]
pub struct Decoded {
    file: PathBuf,
}

/// A packet with a complaint of the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The number of the packet in the recording, from 1.
    pub frame: u64,
    /// The submessages in it.
    pub summary: String,
    /// The complaint of the decoder.
    pub reason: String,
}

impl Capture {
    /// Starts to record an interface of a host; returns when it records.
    ///
    /// # Errors
    /// When `dumpcap` (of Wireshark) cannot be started, or does not start to record.
    pub fn start(host: &NetNs, interface: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}.pcapng", host.name(), NEXT.fetch_add(1, Ordering::Relaxed));
        let file = env::temp_dir().join(name);
        let mut recorder = host
            .command("dumpcap")
            .args(["-q", "-B", BUFFER_MIB, "-i", interface, "-w", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|cause| Error::Start { command: "dumpcap".to_owned(), cause })?;
        let messages = lines_of(recorder.stderr.take());
        let end = format!("the end of {}", file.display());
        let (note, marked) = sync_channel(1);
        let writer = recorder.stdout.take().map(|packets| {
            let (file, end) = (file.clone(), end.clone().into_bytes());
            thread::spawn(move || write_packets(packets, &file, &end, &|| _ = note.try_send(())))
        });
        let mark = (interface == LOOPBACK).then(|| {
            let mut command = host.command("bash");
            command.args(["-c", &format!("printf '%s' '{end}' > /dev/udp/127.0.0.1/{END_PORT}")]);
            command
        });
        let capture = Self { recorder, messages, file, writer, mark, marked };
        // The recorder prints the name of the file, which is -, once the interface is open.
        loop {
            match capture.messages.recv_timeout(START_LIMIT) {
                Ok(line) if line.starts_with("File:") => return Ok(capture),
                Ok(_) => {}
                Err(_) => return Err(tool_error("dumpcap", "it does not record")),
            }
        }
    }

    /// Ends the recording and waits until its file is complete.
    ///
    /// # Errors
    /// When the recorder does not end in time, or has lost packets.
    pub fn stop(mut self) -> Result<Decoded> {
        match &mut self.mark {
            Some(mark) => {
                let sent = mark.status().map_err(|cause| Error::Start { command: "bash".to_owned(), cause })?;
                if !sent.success() || self.marked.recv_timeout(STOP_LIMIT).is_err() {
                    return Err(tool_error("dumpcap", "it has not recorded the last datagram"));
                }
            }
            None => thread::sleep(GATHERING),
        }
        let file = std::mem::take(&mut self.file);
        let decoded = Decoded { file };
        if let Some(pid) = i32::try_from(self.recorder.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT).map_err(|error| tool_error("dumpcap", &error.to_string()))?;
        }
        loop {
            match self.messages.recv_timeout(STOP_LIMIT) {
                Ok(line) if has_lost_packets(&line) => return Err(tool_error("dumpcap", &line)),
                Ok(_) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(_) => return Err(tool_error("dumpcap", "it does not end")),
            }
        }
        let written = self.writer.take().map(JoinHandle::join);
        match written {
            Some(Ok(Ok(()))) => Ok(decoded),
            Some(Ok(Err(error))) => Err(tool_error("dumpcap", &error.to_string())),
            _ => Err(tool_error("dumpcap", "its packets are not written")),
        }
    }
}

/// Writes what the recorder has recorded to a file. Calls `mark` once the file has this end.
fn write_packets(mut packets: ChildStdout, file: &Path, end: &[u8], mark: &dyn Fn()) -> std::io::Result<()> {
    let mut file = File::create(file)?;
    let (mut chunk, mut last) = (vec![0; 1 << 16], Vec::new());
    loop {
        let read = packets.read(&mut chunk)?;
        let Some(new) = chunk.get(..read).filter(|new| !new.is_empty()) else { return Ok(()) };
        file.write_all(new)?;
        // The end may begin in an earlier chunk.
        last.extend_from_slice(new);
        if last.windows(end.len()).any(|window| window == end) {
            mark();
        }
        last.drain(..last.len().saturating_sub(end.len()));
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.recorder.kill();
        let _ = self.recorder.wait();
        if !self.file.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

impl Decoded {
    /// The number of packets with RTPS.
    ///
    /// # Errors
    /// When `tshark` fails.
    pub fn rtps_packets(&self) -> Result<usize> {
        Ok(self.fields("rtps", &["frame.number"])?.lines().count())
    }

    /// The highest number of whole samples in a packet.
    ///
    /// # Errors
    /// When `tshark` cannot be started or cannot read the recording.
    pub fn most_samples(&self) -> Result<usize> {
        const DATA: &str = "0x15";
        let ids = self.submessage_ids()?;
        Ok(ids.lines().map(|packet| packet.matches(DATA).count()).max().unwrap_or(0))
    }

    /// The identifiers of the submessages, as `0x15`: those of a packet in a line, separated by commas.
    ///
    /// # Errors
    /// When `tshark` cannot be started or cannot read the recording.
    pub fn submessage_ids(&self) -> Result<String> {
        self.fields("rtps", &["rtps.sm.id"])
    }

    /// The datagrams that the filter of the decoder selects, each with its destination port.
    ///
    /// # Errors
    /// When `tshark` cannot be started or cannot read the recording.
    pub fn datagrams(&self, filter: &str) -> Result<Vec<(u16, Vec<u8>)>> {
        let lines = self.fields(filter, &["udp.dstport", "udp.payload"])?;
        let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let datagram = |line: &str| {
            let (port, digits) = line.split_once('\t')?;
            Some((port.parse().ok()?, digits.as_bytes().chunks_exact(2).map_while(octet).collect()))
        };
        Ok(lines.lines().filter_map(datagram).collect())
    }

    /// All packets with a complaint of the decoder. Tests require an empty list.
    ///
    /// # Errors
    /// When `tshark` fails.
    pub fn complaints(&self) -> Result<Vec<Complaint>> {
        let fields = ["frame.number", "_ws.col.Info", "_ws.malformed", "_ws.expert.message"];
        Ok(self.fields(COMPLAINTS, &fields)?.lines().map(complaint).collect())
    }

    /// The file of the recording, which exists as long as `self`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn fields(&self, filter: &str, fields: &[&str]) -> Result<String> {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&self.file).args(CONTENT_FIRST).args([
            "-Y",
            filter,
            "-T",
            "fields",
            "-E",
            "separator=/t",
        ]);
        for field in fields {
            command.args(["-e", field]);
        }
        let output = command.output().map_err(|cause| Error::Start { command: "tshark".to_owned(), cause })?;
        if !output.status.success() {
            return Err(tool_error("tshark", &String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Decoded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

fn complaint(line: &str) -> Complaint {
    let mut columns = line.split('\t').map(str::to_owned);
    let mut next = || columns.next().unwrap_or_default();
    let frame = next().parse().unwrap_or(0);
    let summary = next();
    let [malformed, expert] = [next(), next()];
    let reason = [malformed, expert].into_iter().filter(|reason| !reason.is_empty()).collect::<Vec<_>>().join("; ");
    Complaint { frame, summary, reason: if reason.is_empty() { "is not RTPS".to_owned() } else { reason } }
}

/// `Packets received/dropped on interface 'Loopback: lo': 210/0 (pcap:0/dumpcap:0/flushed:0/ps_ifdrop:0) (100.0%)`
fn has_lost_packets(line: &str) -> bool {
    line.strip_prefix("Packets received/dropped on interface")
        .and_then(|rest| rest.split_once("': "))
        .and_then(|(_, counts)| counts.split([' ', '/']).nth(1))
        .is_some_and(|dropped| dropped != "0")
}

fn lines_of(stream: Option<ChildStderr>) -> Receiver<String> {
    let (sender, receiver) = sync_channel(16);
    thread::spawn(move || {
        for line in stream.into_iter().flat_map(|stream| BufReader::new(stream).lines()).map_while(|line| line.ok()) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn tool_error(command: &str, output: &str) -> Error {
    Error::Tool { command: command.to_owned(), output: output.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Decoded, complaint, has_lost_packets};

    #[test]
    fn lost_packets_are_read_from_last_lines_of_recorder() {
        let line = |counts| {
            format!("Packets received/dropped on interface 'Loopback: lo': {counts} (pcap:0/dumpcap:0) (100.0%)")
        };
        assert!(!has_lost_packets(&line("210/0")));
        assert!(has_lost_packets(&line("210/3")));
        assert!(!has_lost_packets("Capturing on 'lo'"));
    }

    #[test]
    fn complaint_names_its_reason() {
        assert_eq!(complaint("7\tINFO_TS, DATA\t\tbad length").reason, "bad length");
        assert_eq!(complaint("7\tUDP\t\t").reason, "is not RTPS");
        assert_eq!(complaint("7\tDATA\tMalformed Packet\t").frame, 7);
    }

    /// 41170 and 1900 belong to Manolito and SSDP; as an ephemeral port, the former is a participant's once in a while.
    #[test]
    fn message_from_port_of_another_protocol_is_rtps() {
        let heartbeat = [
            b"RTPS\x02\x05\x01\x03ABCDEFGHIJKL".as_slice(),
            &[7, 1, 28, 0, 0, 0, 0, 0xc7, 0, 0, 3, 0xc2],
            &[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0],
        ]
        .concat();
        let packets = [(41_170, heartbeat.as_slice()), (1_900, &heartbeat), (41_170, b"this is no RTPS message")];
        let file = std::env::temp_dir().join(format!("ports-{}.pcap", std::process::id()));
        std::fs::write(&file, recording(&packets)).expect("a temporary file is written");
        let decoded = Decoded { file };
        assert_eq!(decoded.rtps_packets().expect("tshark runs"), 2);
        let frames: Vec<_> = decoded.complaints().expect("tshark runs").iter().map(|found| found.frame).collect();
        assert_eq!(frames, [3]);
    }

    /// A pcap file of UDP datagrams over IPv4, each from the given port to 7413.
    fn recording(packets: &[(u16, &[u8])]) -> Vec<u8> {
        const RAW_IP: u32 = 101;
        let mut file = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, RAW_IP].map(u32::to_be_bytes).concat();
        for (port, payload) in packets {
            let udp_length = 8 + u16::try_from(payload.len()).expect("a short payload");
            let ip_length = 20 + udp_length;
            file.extend([0, 0, u32::from(ip_length), u32::from(ip_length)].map(u32::to_be_bytes).concat());
            file.extend([0x45, 0]);
            file.extend(ip_length.to_be_bytes());
            file.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
            file.extend([*port, 7413, udp_length, 0].map(u16::to_be_bytes).concat());
            file.extend(*payload);
        }
        file
    }
}
