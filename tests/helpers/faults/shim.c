/* Test fixture only, for LD_PRELOAD: counts every libc call that changes files below given folders, over all processes that
 * inherit it, and lets call N fail or end in a kill.
 *
 * The scene is a file that all of them map (`struct scene`, written by shim.py): where to look, what goes wrong, the counter,
 * and a row for each call. The two variables that name shim and scene are in no environment that a program sees: every exec gives
 * them to the child anew.
 * Not seen: programs that are static, that clear LD_PRELOAD by setuid, or that call the kernel without libc; writes through mmap;
 * what stdio does by itself but for fopen, and the calls that bring a buffer to the file.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define VARIABLE "FAULT_SCENE"
#define ROOTS 8
#define FDS 4096

enum { NOTHING, ONCE, FROM_HERE, KILL_CALLER, KILL_FIRST };
enum { SPACE = 1, CHANGE = 2, REMOVE = 4, SYNC = 8 }; /* what a call needs: room on the disk, a file, none of both, the disk itself */

struct row {
    int32_t pid;
    uint32_t kind, hit;
    char name[20], program[16], path[208];
};

struct scene {
    uint64_t at;             /* the first call that the fault may hit; 0: none */
    uint32_t how, kinds;     /* what goes wrong; kinds of calls that it can hit */
    int32_t error;           /* errno */
    _Atomic int32_t first;   /* the process that was started first */
    _Atomic uint64_t calls;  /* seen so far */
    _Atomic uint64_t hits;   /* calls that failed, or kills */
    uint64_t rows;           /* room for them */
    char roots[ROOTS][512];
    struct row row[];
};

static struct scene *scene;
static char preload[PATH_MAX + 32], variable[PATH_MAX + 32];
static unsigned char written[FDS]; /* descriptors of ours that were opened for writing */

/* -- the scene ----------------------------------------------------------------------------------------------------------- */

extern char **environ;

static int starts(const char *text, const char *with) { return !strncmp(text, with, strcspn(with, "=") + 1); }

/* Out of the environment: a program whose variables are looked at has them as if nothing were. By hand, as bash has a getenv and an
 * unsetenv of its own. */
static const char *taken(const char *name) {
    const char *value = NULL;
    char **to = environ;
    for (char **from = environ; from && *from; from++) {
        if (starts(*from, name)) value = *from + strlen(name);
        else *to++ = *from;
    }
    if (value) *to = NULL;
    return value;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = taken(VARIABLE "="), *own = taken("LD_PRELOAD=");
    struct stat status;
    if (!path || !own) return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    if (!syscall(SYS_fstat, fd, &status)) {
        void *where = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (where != MAP_FAILED) scene = where;
    }
    syscall(SYS_close, fd);
    if (!scene) return;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%.*s", (int)strcspn(own, ":"), own);
    snprintf(variable, sizeof variable, VARIABLE "=%s", path);
    int32_t nobody = 0;
    atomic_compare_exchange_strong(&scene->first, &nobody, getpid());
}

static int inside(const char *path) {
    for (int i = 0; i < ROOTS && scene->roots[i][0]; i++) {
        size_t n = strlen(scene->roots[i]);
        if (!strncmp(path, scene->roots[i], n) && (path[n] == '/' || !path[n])) return 1;
    }
    return 0;
}

static int absolute(int folder, const char *path, char *into) {
    char link[40];
    ssize_t n;
    if (!path) return 0;
    if (path[0] == '/') return snprintf(into, PATH_MAX, "%s", path) > 0;
    if (folder == AT_FDCWD) {
        n = syscall(SYS_getcwd, into, PATH_MAX);
        if (n <= 0) return 0;
        n--;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        n = syscall(SYS_readlinkat, AT_FDCWD, link, into, PATH_MAX - 1);
        if (n <= 0) return 0;
    }
    snprintf(into + n, PATH_MAX - n, path[0] ? "/%s" : "%s", path);
    return 1;
}

/* 0: go on; else the errno that the caller is to get. Does not come back from a kill. */
static int met(const char *name, uint32_t kind, const char *path) {
    static char program[16];
    int before = errno;
    uint64_t number = atomic_fetch_add(&scene->calls, 1) + 1;
    struct row *row = number <= scene->rows ? &scene->row[number - 1] : NULL;
    int hit = 0;
    if (scene->at && number >= scene->at && (kind & scene->kinds)) {
        uint64_t none = 0;
        if (scene->how == FROM_HERE)
            hit = atomic_fetch_add(&scene->hits, 1) + 1 > 0;
        else
            hit = atomic_compare_exchange_strong(&scene->hits, &none, 1);
    }
    if (row) {
        if (!program[0]) {
            int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
            ssize_t n = fd < 0 ? 0 : syscall(SYS_read, fd, program, sizeof program - 1);
            if (n > 0) program[n - 1] = 0;
            if (fd >= 0) syscall(SYS_close, fd);
        }
        row->pid = getpid();
        row->kind = kind;
        row->hit = hit;
        strncpy(row->name, name, sizeof row->name - 1);
        memcpy(row->program, program, sizeof row->program);
        size_t length = strlen(path), most = sizeof row->path - 1;
        strcpy(row->path, length > most ? path + length - most : path);
    }
    errno = before;
    if (!hit) return 0;
    if (scene->how == KILL_CALLER || scene->how == KILL_FIRST) {
        int32_t who = scene->how == KILL_FIRST ? scene->first : getpid();
        syscall(SYS_kill, who, SIGKILL);
        while (who == getpid()) pause();
        errno = before;
        return 0;
    }
    return scene->error;
}

static int met_at(const char *name, uint32_t kind, int folder, const char *path) {
    char whole[PATH_MAX];
    if (!scene || !absolute(folder, path, whole) || !inside(whole)) return 0;
    return met(name, kind, whole);
}

static int met_fd(const char *name, uint32_t kind, int fd) {
    struct stat status;
    char whole[PATH_MAX];
    if (!scene || syscall(SYS_fstat, fd, &status) || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) return 0;
    if (!absolute(fd, "", whole) || !inside(whole)) return 0;
    return met(name, kind, whole);
}

/* -- the calls: each asks first, then does what libc's does --------------------------------------------------------------- */

#define REFUSE(number, value) do { int refused = (number); if (refused) { errno = refused; return value; } } while (0)
#define ALIAS(type, name, of, ...) type name(__VA_ARGS__) __attribute__((alias(#of)))

static int opened(int folder, const char *path, int flags, mode_t mode) {
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    if (writes && !(flags & O_PATH)) {
        char whole[PATH_MAX];
        if (scene && absolute(folder, path, whole) && inside(whole)) {
            REFUSE(met("open", flags & (O_CREAT | O_TMPFILE) ? SPACE : CHANGE, whole), -1);
            int fd = syscall(SYS_openat, folder, path, flags | O_LARGEFILE, mode);
            if (fd >= 0 && fd < FDS) written[fd] = 1;
            return fd;
        }
    }
    int fd = syscall(SYS_openat, folder, path, flags | O_LARGEFILE, mode);
    if (fd >= 0 && fd < FDS) written[fd] = 0;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                                    \
    int name(const char *path, int flags, ...) {      \
        va_list rest;                                 \
        va_start(rest, flags);                        \
        mode_t mode = mode_of(flags, rest);           \
        va_end(rest);                                 \
        return opened(AT_FDCWD, path, flags, mode);   \
    }
#define OPENAT(name)                                           \
    int name(int folder, const char *path, int flags, ...) {   \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = mode_of(flags, rest);                    \
        va_end(rest);                                          \
        return opened(folder, path, flags, mode);              \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __openat_2(int folder, const char *path, int flags) { return opened(folder, path, flags, 0); }
int __openat64_2(int folder, const char *path, int flags) { return opened(folder, path, flags, 0); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* What a network file system could not write it may tell at the close. */
int close(int fd) {
    int why = 0;
    if (scene && fd >= 0 && fd < FDS && written[fd]) {
        written[fd] = 0;
        why = met_fd("close", SYNC, fd);
    }
    int done = syscall(SYS_close, fd);
    REFUSE(why, -1);
    return done;
}

#define BY_FD(type, name, kind, number, params, fd, ...) \
    type name params {                                   \
        REFUSE(met_fd(#name, kind, fd), -1);             \
        return syscall(number, __VA_ARGS__);             \
    }
#define BY_PATH(name, kind, number, params, folder, path, ...) \
    int name params {                                          \
        REFUSE(met_at(#name, kind, folder, path), -1);         \
        return syscall(number, __VA_ARGS__);                   \
    }

BY_FD(ssize_t, write, SPACE, SYS_write, (int fd, const void *data, size_t size), fd, fd, data, size)
BY_FD(ssize_t, pwrite, SPACE, SYS_pwrite64, (int fd, const void *data, size_t size, off_t at), fd, fd, data, size, at)
BY_FD(ssize_t, pwrite64, SPACE, SYS_pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, fd, data, size, at)
BY_FD(ssize_t, writev, SPACE, SYS_writev, (int fd, const struct iovec *data, int count), fd, fd, data, count)
BY_FD(ssize_t, pwritev, SPACE, SYS_pwritev, (int fd, const struct iovec *data, int count, off_t at), fd, fd, data, count, at, 0)
BY_FD(ssize_t, pwritev64, SPACE, SYS_pwritev, (int fd, const struct iovec *data, int count, off64_t at), fd, fd, data, count, at, 0)
BY_FD(ssize_t, sendfile, SPACE, SYS_sendfile, (int fd, int from, off_t *at, size_t size), fd, fd, from, at, size)
BY_FD(ssize_t, sendfile64, SPACE, SYS_sendfile, (int fd, int from, off64_t *at, size_t size), fd, fd, from, at, size)
BY_FD(ssize_t, copy_file_range, SPACE, SYS_copy_file_range,
      (int from, off64_t *begin_at, int fd, off64_t *at, size_t size, unsigned flags), fd, from, begin_at, fd, at, size, flags)
BY_FD(int, fallocate, SPACE, SYS_fallocate, (int fd, int how, off_t at, off_t size), fd, fd, how, at, size)
BY_FD(int, ftruncate, CHANGE, SYS_ftruncate, (int fd, off_t size), fd, fd, size)
BY_FD(int, ftruncate64, CHANGE, SYS_ftruncate, (int fd, off64_t size), fd, fd, size)
BY_FD(int, fsync, SYNC, SYS_fsync, (int fd), fd, fd)
BY_FD(int, fdatasync, SYNC, SYS_fdatasync, (int fd), fd, fd)
BY_FD(int, syncfs, SYNC, SYS_syncfs, (int fd), fd, fd)
BY_FD(int, fchmod, CHANGE, SYS_fchmod, (int fd, mode_t mode), fd, fd, mode)
BY_FD(int, fchown, CHANGE, SYS_fchown, (int fd, uid_t user, gid_t group), fd, fd, user, group)
BY_FD(int, futimens, CHANGE, SYS_utimensat, (int fd, const struct timespec times[2]), fd, fd, NULL, times, 0)

BY_PATH(mkdir, SPACE, SYS_mkdir, (const char *path, mode_t mode), AT_FDCWD, path, path, mode)
BY_PATH(mkdirat, SPACE, SYS_mkdirat, (int folder, const char *path, mode_t mode), folder, path, folder, path, mode)
BY_PATH(rmdir, REMOVE, SYS_rmdir, (const char *path), AT_FDCWD, path, path)
BY_PATH(unlink, REMOVE, SYS_unlink, (const char *path), AT_FDCWD, path, path)
BY_PATH(unlinkat, REMOVE, SYS_unlinkat, (int folder, const char *path, int flags), folder, path, folder, path, flags)
BY_PATH(rename, SPACE, SYS_rename, (const char *path, const char *to), AT_FDCWD, to, path, to)
BY_PATH(renameat, SPACE, SYS_renameat, (int folder, const char *path, int other, const char *to), other, to, folder, path, other, to)
BY_PATH(renameat2, SPACE, SYS_renameat2, (int folder, const char *path, int other, const char *to, unsigned flags), other, to, folder,
        path, other, to, flags)
BY_PATH(link, SPACE, SYS_link, (const char *path, const char *to), AT_FDCWD, to, path, to)
BY_PATH(linkat, SPACE, SYS_linkat, (int folder, const char *path, int other, const char *to, int flags), other, to, folder, path,
        other, to, flags)
BY_PATH(symlink, SPACE, SYS_symlink, (const char *target, const char *path), AT_FDCWD, path, target, path)
BY_PATH(symlinkat, SPACE, SYS_symlinkat, (const char *target, int folder, const char *path), folder, path, target, folder, path)
BY_PATH(mkfifo, SPACE, SYS_mknod, (const char *path, mode_t mode), AT_FDCWD, path, path, mode | S_IFIFO, 0)
BY_PATH(mknod, SPACE, SYS_mknod, (const char *path, mode_t mode, dev_t device), AT_FDCWD, path, path, mode, device)
BY_PATH(mknodat, SPACE, SYS_mknodat, (int folder, const char *path, mode_t mode, dev_t device), folder, path, folder, path, mode, device)
BY_PATH(truncate, CHANGE, SYS_truncate, (const char *path, off_t size), AT_FDCWD, path, path, size)
BY_PATH(truncate64, CHANGE, SYS_truncate, (const char *path, off64_t size), AT_FDCWD, path, path, size)
BY_PATH(chmod, CHANGE, SYS_chmod, (const char *path, mode_t mode), AT_FDCWD, path, path, mode)
BY_PATH(chown, CHANGE, SYS_chown, (const char *path, uid_t user, gid_t group), AT_FDCWD, path, path, user, group)
BY_PATH(lchown, CHANGE, SYS_lchown, (const char *path, uid_t user, gid_t group), AT_FDCWD, path, path, user, group)
BY_PATH(fchownat, CHANGE, SYS_fchownat, (int folder, const char *path, uid_t user, gid_t group, int flags), folder, path, folder, path,
        user, group, flags)
BY_PATH(utimensat, CHANGE, SYS_utimensat, (int folder, const char *path, const struct timespec times[2], int flags), folder, path,
        folder, path, times, flags)

/* These two are more than one system call: libc's own go on. */
#define LIBC(type, name, params) ((type(*) params)dlsym(RTLD_NEXT, name))

int fchmodat(int folder, const char *path, mode_t mode, int flags) {
    REFUSE(met_at("fchmodat", CHANGE, folder, path), -1);
    return LIBC(int, "fchmodat", (int, const char *, mode_t, int))(folder, path, mode, flags);
}

int posix_fallocate(int fd, off_t at, off_t size) {
    int why = met_fd("posix_fallocate", SPACE, fd);
    return why ? why : LIBC(int, "posix_fallocate", (int, off_t, off_t))(fd, at, size);
}

int posix_fallocate64(int fd, off64_t at, off64_t size) { return posix_fallocate(fd, at, size); }

/* Their names are chosen in libc: the template says in which folder. */
#define TEMPORARY(type, name, params, call, template, nothing)        \
    type name params {                                                \
        REFUSE(met_at(#name, SPACE, AT_FDCWD, template), nothing);    \
        return call;                                                  \
    }
static int marked(int fd) {
    if (fd >= 0 && fd < FDS) written[fd] = 1;
    return fd;
}
TEMPORARY(int, mkstemp, (char *path), marked(LIBC(int, "mkstemp", (char *))(path)), path, -1)
TEMPORARY(int, mkstemp64, (char *path), marked(LIBC(int, "mkstemp64", (char *))(path)), path, -1)
TEMPORARY(int, mkostemp, (char *path, int flags), marked(LIBC(int, "mkostemp", (char *, int))(path, flags)), path, -1)
TEMPORARY(int, mkostemp64, (char *path, int flags), marked(LIBC(int, "mkostemp64", (char *, int))(path, flags)), path, -1)
TEMPORARY(int, mkstemps, (char *path, int end), marked(LIBC(int, "mkstemps", (char *, int))(path, end)), path, -1)
TEMPORARY(char *, mkdtemp, (char *path), LIBC(char *, "mkdtemp", (char *))(path), path, NULL)

/* -- stdio, which writes from inside libc ---------------------------------------------------------------------------------- */

static FILE *streamed(const char *name, const char *path, const char *mode) {
    int writes = strpbrk(mode, "wa+") != NULL;
    if (writes) REFUSE(met_at("fopen", strchr(mode, 'r') ? CHANGE : SPACE, AT_FDCWD, path), NULL);
    FILE *stream = LIBC(FILE *, name, (const char *, const char *))(path, mode);
    if (stream && fileno(stream) >= 0 && fileno(stream) < FDS) written[fileno(stream)] = writes && scene;
    return stream;
}
FILE *fopen(const char *path, const char *mode) { return streamed("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return streamed("fopen64", path, mode); }

/* What waits in the buffer of a stream is lost with the fault, as it is on a disk that is full. */
static int brought(const char *name, FILE *stream) {
    if (!scene || !stream || !__fpending(stream) || fileno(stream) < 0) return 0;
    int why = met_fd(name, SPACE, fileno(stream));
    if (why) __fpurge(stream);
    return why;
}

int fflush(FILE *stream) {
    REFUSE(brought("fflush", stream), EOF);
    return LIBC(int, "fflush", (FILE *))(stream);
}

int fclose(FILE *stream) {
    int why = brought("fclose", stream), fd = stream ? fileno(stream) : -1;
    if (fd >= 0 && fd < FDS) written[fd] = 0;
    int done = LIBC(int, "fclose", (FILE *))(stream);
    REFUSE(why, EOF);
    return done;
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
    if (scene && fileno(stream) >= 0 && size * count + __fpending(stream) > (__fbufsize(stream) ? __fbufsize(stream) : 4096))
        REFUSE(met_fd("fwrite", SPACE, fileno(stream)), 0);
    return LIBC(size_t, "fwrite", (const void *, size_t, size_t, FILE *))(data, size, count, stream);
}

/* -- children: the two variables go with them ------------------------------------------------------------------------------ */

static size_t count_of(char *const *list) {
    size_t n = 0;
    while (list && list[n]) n++;
    return n;
}

static void given(char *const *environment, char **into) {
    for (; environment && *environment; environment++)
        if (!starts(*environment, preload) && !starts(*environment, variable)) *into++ = *environment;
    *into++ = preload;
    *into++ = variable;
    *into = NULL;
}
#define GIVEN(environment)                                                                                   \
    char *const *with = environment;                                                                         \
    if (scene) {                                                                                             \
        char **list = alloca((count_of(environment) + 3) * sizeof(char *)); /* of the parent, after vfork */ \
        given(environment, list);                                                                            \
        with = list;                                                                                         \
    }

int execve(const char *path, char *const argv[], char *const environment[]) {
    GIVEN(environment)
    return syscall(SYS_execve, path, argv, with);
}
int execv(const char *path, char *const argv[]) { return execve(path, argv, environ); }
int fexecve(int fd, char *const argv[], char *const environment[]) {
    GIVEN(environment)
    return syscall(SYS_execveat, fd, "", argv, with, AT_EMPTY_PATH);
}
int execvpe(const char *file, char *const argv[], char *const environment[]) {
    GIVEN(environment)
    return LIBC(int, "execvpe", (const char *, char *const[], char *const[]))(file, argv, with);
}
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, environ); }

/* What these two start gets the environment of this program, from inside libc. */
#define LENT(type, call)            \
    char **own = environ;           \
    GIVEN(own)                      \
    environ = (char **)with;        \
    type done = call;               \
    environ = own;                  \
    return done;
int system(const char *command) { LENT(int, LIBC(int, "system", (const char *))(command)) }
FILE *popen(const char *command, const char *mode) {
    LENT(FILE *, LIBC(FILE *, "popen", (const char *, const char *))(command, mode))
}

typedef int spawn_call(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                char *const argv[], char *const environment[]) {
    GIVEN(environment)
    return ((spawn_call *)dlsym(RTLD_NEXT, "posix_spawn"))(pid, path, actions, how, argv, with);
}
int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
                 char *const argv[], char *const environment[]) {
    GIVEN(environment)
    return ((spawn_call *)dlsym(RTLD_NEXT, "posix_spawnp"))(pid, path, actions, how, argv, with);
}
