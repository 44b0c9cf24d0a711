# A builder that writes down all it can see of where it is.
import os, re, resource, signal, socket, stat, subprocess, sys

out = open(os.environ["out"], "w")
def say(*words): print(*words, file=out)

for key, value in sorted(os.environ.items()):
    if key != "NIX_BUILD_CORES": say("env", key, value)  # the host's
say("argv", sys.argv[1:], "cwd", os.getcwd(), "umask", oct(os.umask(0o22)))
say("ids", os.getresuid(), os.getresgid(), os.getgroups(), "pid", os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0))
for path in ["/etc/passwd", "/etc/group", "/etc/hosts", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups",
             "/proc/self/personality", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname"]:
    try: say(path, repr(open(path).read()))
    except OSError as e: say(path, e.strerror)
status = open("/proc/self/status").read()
for key in ["Umask", "NoNewPrivs", "Seccomp", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapAmb"]:
    say(key, re.search(rf"^{key}:\t(.*)", status, re.M)[1])
for path in ["/", "/nix", "/nix/store", "/build", "/tmp", "/dev", "/dev/shm", "/dev/pts", "/dev/null", "/dev/full", "/dev/tty",
             "/dev/ptmx", "/dev/fd", "/dev/stdin", "/dev/random", "/dev/urandom", "/dev/zero", "/etc", "/etc/passwd", "/bin", "/bin/sh",
             "/proc", "/sys", "/root", "/home", "/usr", "/var", "/lib", "/build/x"]:
    try:
        s = os.lstat(path)
        # The mode of /bin/sh is that of a file of the host's, under Nix (docs/fidelity.md).
        mode = "-" if path == "/bin/sh" else stat.filemode(s.st_mode)
        say(path, mode, s.st_uid, s.st_gid, os.readlink(path) if stat.S_ISLNK(s.st_mode) else "",
            (os.major(s.st_rdev), os.minor(s.st_rdev)) if stat.S_ISCHR(s.st_mode) else "")
    except OSError as e: say(path, e.strerror)
for path in ["/", "/etc", "/bin", "/build", "/tmp", "/nix"]: say("ls", path, sorted(os.listdir(path)))
say("fds", [(fd, re.sub("[0-9]+", "N", os.readlink(f"/proc/self/fd/{fd}")) if fd < 3 else "") for fd in sorted(map(int, os.listdir("/proc/self/fd")))][:3], [os.isatty(fd) for fd in (0, 1, 2)])
import termios
say("termios", termios.tcgetattr(1)[:4], os.get_terminal_size(1))
try: os.open("/dev/tty", os.O_RDWR); say("ctty yes")
except OSError as e: say("ctty", e.strerror)
for name in ["CORE", "STACK", "NOFILE", "DATA", "FSIZE"]: say(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)) if name in ("CORE",) else "")
say("signals", [n for n in range(1, 65) if signal.getsignal(n) == signal.SIG_IGN], signal.pthread_sigmask(signal.SIG_BLOCK, []))
say("cpus", len(os.sched_getaffinity(0)) > 0)
store = os.path.basename(os.environ["out"])
for path, mode in [("x", 0o4755), ("x", 0o2755), ("x", 0o755)]:
    open(path, "w").close()
    try: os.chmod(path, mode); say("chmod", oct(mode), oct(os.stat(path).st_mode))
    except OSError as e: say("chmod", oct(mode), e.strerror)
for call in [lambda: os.setxattr("x", "user.a", b"b"), lambda: os.chown("x", 0, 0), lambda: os.mknod("dev", 0o600 | stat.S_IFCHR, os.makedev(1, 3)),
             lambda: os.setuid(0), lambda: os.mkfifo("fifo"), lambda: os.symlink("a", "b"), lambda: os.link("x", "y"),
             lambda: open("/etc/new", "w"), lambda: open("/bin/new", "w"), lambda: os.mkdir("/new"), lambda: open("/nix/store/new", "w").close(),
             lambda: socket.create_connection(("192.0.2.1", 80), 1),
             lambda: socket.getaddrinfo("example.invalid", 80), lambda: os.kill(1, 0), lambda: os.nice(-5), lambda: os.chroot("/build")]:
    try: say("call", call())
    except OSError as e: say("call", e.errno, e.strerror)
# An input can't be changed; the errno is that of a mode there and of a read-only file system here.
for call in [lambda: open("@input@", "a"), lambda: os.unlink("@input@")]:
    try: say("changed an input", call())
    except (PermissionError, OSError) as e: say("input", e.errno in (1, 13, 16, 30))
say("host", socket.gethostname(), socket.gethostbyname("localhost"), sorted(name for _, name in socket.if_nameindex()))
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname()); client.sendall(b"x"); say("loopback", server.accept()[0].recv(1))
server = socket.create_server(("::1", 0), family=socket.AF_INET6); client = socket.create_connection(server.getsockname()[:2]); say("loopback6", bool(server.accept()))
say("sh", subprocess.run(["/bin/sh", "-c", "echo $0; set -o | head -3; type echo"], capture_output=True, text=True).stdout)
