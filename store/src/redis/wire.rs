//! Connections to a Redis server: each request has one deadline for all it does, and each answer a length it may not exceed.
//!
//! Not here: which commands (`redis`). The client crate packs commands and parses answers; it does not hold the connection,
//! because its timeouts are per read: a server that drips a byte now and then would never run into one.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use ::redis::{Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Parser, Value, cmd};

const HINT: &str =
    "type redis://host:port, redis://host:port/number, or redis://user:password@host:port";
/// Connections kept for the next request.
const IDLE_MAX: usize = 8;
/// After a failure nobody asks for this long; it doubles with each failure more.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// As long as anyone waits whatever was asked for: later moments may not be representable.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// More than a word, a number or a refusal needs.
const SMALL_BYTES_MAX: u64 = 4 << 20;

/// A server, and the connections there are to it.
pub(super) struct Wire {
    info: ConnectionInfo,
    host: String,
    port: u16,
    call_max: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<TcpStream>,
    /// After failures: until when nobody asks, how long that was from the last of them, and what it was.
    down: Option<(Instant, Duration, String)>,
}

/// A connection that is ours until the deadline.
pub(super) struct Request<'a> {
    wire: &'a Wire,
    /// None once it has failed.
    stream: Option<TcpStream>,
    until: Instant,
}

impl Wire {
    /// No text of the address is repeated in what is said of it: there may be a password in it.
    pub(super) fn new(url: &str, call_max: Duration) -> Result<Self, String> {
        let info = url
            .into_connection_info()
            .map_err(|_| format!("cannot read it; {HINT}"))?;
        let (host, port) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port),
            ConnectionAddr::TcpTls { .. } => {
                return Err(format!("TLS is not built in, use a tunnel; {HINT}"));
            }
            _ => return Err(format!("only TCP is spoken here; {HINT}")),
        };
        Ok(Self {
            info,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            call_max,
            state: Mutex::default(),
        })
    }

    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Each change of the state is one step, so it is whole whoever panicked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for one call.
    pub(super) fn request(&self) -> Result<Request<'_>, String> {
        self.within(self.call_max)
    }

    /// A connection for a call that may take this long.
    pub(super) fn within(&self, wait: Duration) -> Result<Request<'_>, String> {
        let until = Instant::now() + wait.min(WAIT_MAX);
        let mut ask = Request {
            wire: self,
            stream: None,
            until,
        };
        loop {
            let mut state = self.state();
            if let Some((at, _, what)) = &state.down
                && Instant::now() < *at
            {
                return Err(format!("not asked again so soon after: {what}"));
            }
            let Some(idle) = state.idle.pop() else { break };
            drop(state);
            if is_quiet(&idle) {
                ask.stream = Some(idle);
                return Ok(ask);
            }
        }
        ask.stream = Some(self.connect(until).map_err(|error| self.failed(&error))?);
        ask.log_in().inspect_err(|_| ask.stream = None)?; // nobody else shall have it as it is
        Ok(ask)
    }

    /// Notes a failure, and says what it was.
    fn failed(&self, error: &io::Error) -> String {
        let what = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
            io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
            _ => said(&error.to_string()),
        };
        let mut state = self.state();
        state.idle.clear(); // they go to the same server
        let last = state.down.as_ref().map(|down| down.1);
        let pause = last.map_or(PAUSE, |last| (last * 2).min(PAUSE_MAX));
        state.down = Some((Instant::now() + pause, pause, what.clone()));
        what
    }

    fn connect(&self, until: Instant) -> io::Result<TcpStream> {
        let addresses = self.addresses(until)?;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
        for (tried, address) in addresses.iter().enumerate() {
            // One that does not answer leaves time for the others.
            let others = (addresses.len() - tried) as u32;
            match TcpStream::connect_timeout(address, left(until)? / others) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Asking for a host's addresses has no deadline of its own: another thread waits for it.
    fn addresses(&self, until: Instant) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (say, hear) = mpsc::channel();
        let asked = (self.host.clone(), self.port);
        std::thread::Builder::new().spawn(move || {
            let found = asked.to_socket_addrs().map(Iterator::collect);
            let _ = say.send(found); // nobody may be waiting any more
        })?;
        hear.recv_timeout(left(until)?)
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Request<'_> {
    fn log_in(&mut self) -> Result<(), String> {
        let redis = self.wire.info.redis_settings();
        if let Some(password) = redis.password() {
            let mut auth = cmd("AUTH");
            if let Some(user) = redis.username() {
                auth.arg(user);
            }
            self.one(auth.arg(password), SMALL_BYTES_MAX)?;
        }
        if redis.db() != 0 {
            self.one(cmd("SELECT").arg(redis.db()), SMALL_BYTES_MAX)?;
        }
        Ok(())
    }

    /// The answer to one command.
    pub(super) fn one(&mut self, command: &Cmd, bytes_max: u64) -> Result<Value, String> {
        let answer = self.several(&command.get_packed_command(), 1, bytes_max)?;
        answer.into_iter().next().ok_or_else(|| "no answer".into())
    }

    /// The answers to so many commands; a refusal among them is returned in place of all.
    pub(super) fn several(
        &mut self,
        packed: &[u8],
        count: usize,
        bytes_max: u64,
    ) -> Result<Vec<Value>, String> {
        let exchanged = match &self.stream {
            Some(stream) => exchange(stream, self.until, packed, (count, bytes_max)),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let answers = exchanged.map_err(|error| {
            self.stream = None; // what it says from now on answers nothing
            self.wire.failed(&error)
        })?;
        match answers.iter().find_map(refusal) {
            Some(refused) => Err(refused),
            None => Ok(answers),
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        let mut state = self.wire.state();
        state.down = None;
        if state.idle.len() < IDLE_MAX {
            state.idle.push(stream);
        }
    }
}

/// What the server refused, in its words.
pub(super) fn refusal(answer: &Value) -> Option<String> {
    match answer {
        Value::ServerError(error) => Some(said(&error.to_string())),
        _ => None,
    }
}

/// The beginning of what someone else said, on one line.
fn said(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(200).map(plain).collect()
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Whether nothing has come since the last answer: neither an end nor bytes that answer nothing.
fn is_quiet(stream: &TcpStream) -> bool {
    let heard = stream
        .set_nonblocking(true)
        .and_then(|()| stream.peek(&mut [0]));
    let quiet = heard.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    quiet && stream.set_nonblocking(false).is_ok()
}

fn exchange(
    stream: &TcpStream,
    until: Instant,
    packed: &[u8],
    (count, bytes_max): (usize, u64),
) -> io::Result<Vec<Value>> {
    let mut to = Bounded {
        stream,
        until,
        bytes_left: bytes_max,
        begun: false,
        broke: None,
    };
    to.write_all(packed)?;
    let mut parser = Parser::new();
    let mut answers = Vec::new();
    for _ in 0..count {
        let answer = parser.parse_value(&mut to).map_err(|_| {
            let broke = to.broke.take();
            broke.unwrap_or_else(|| io::Error::other("an answer that is not Redis's"))
        })?;
        answers.push(answer);
    }
    Ok(answers)
}

/// A connection until a deadline, and of so many bytes.
struct Bounded<'a> {
    stream: &'a TcpStream,
    until: Instant,
    bytes_left: u64,
    begun: bool,
    /// Why reading ended, which the parser does not say.
    broke: Option<io::Error>,
}

impl Bounded<'_> {
    fn read_some(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        let count = match self.stream.read(into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return self.read_some(into);
            }
            read => read?,
        };
        if !std::mem::replace(&mut self.begun, true) && into.first() != Some(&b'$') {
            // Only bytes may be long: a list of that length would take many times as much memory.
            self.bytes_left = self.bytes_left.min(SMALL_BYTES_MAX);
        }
        self.bytes_left = self
            .bytes_left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("an answer longer than any it could give"))?;
        Ok(count)
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_some(into).map_err(|error| {
            let kind = error.kind();
            self.broke = Some(error);
            kind.into()
        })
    }
}

impl Write for Bounded<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.until)?))?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
