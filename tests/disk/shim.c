/* Stands between a process and its disk (LD_PRELOAD): writes down what is done to the files below one folder, and lets
 * a chosen call fail. tests/disk/promises.py builds it, tests/disk/power_cut.py reads what it writes.
 *
 * An entry of the trace: struct head, then the two paths, then the data. Everything is written after it has happened.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum op { OPEN = 1, CLOSE, DUP, WRITE, TRUNCATE, SYNC, RENAME, LINK, UNLINK, MKDIR, MARK, SYNC_FAILED, UNKNOWN };

struct head {
    int32_t op, fd, other; /* other: the new descriptor, or the flags of an open */
    int32_t first, second; /* lengths of the paths */
    int32_t pad;
    int64_t offset, length; /* of the data; a length to truncate to stands in offset */
};

#define DESCRIPTORS 65536
static char watched[DESCRIPTORS];
static char folder[PATH_MAX];
static int trace = -1;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* the order of the trace is the order of what happened */

/* The fault: the calls of these kinds (bits of 1 << op) are counted; from the `first`-th on, `times` of them fail. */
static int fault_kinds, fault_first, fault_times, fault_error, fault_short, counted, failed;
static int calls[32]; /* of each kind, since the fault was set */

#define REAL(name, type) \
    static __typeof__(type) real; \
    if (!real) real = (type)dlsym(RTLD_NEXT, name)

static ssize_t plain_write(int fd, const void *data, size_t length) {
    REAL("write", ssize_t (*)(int, const void *, size_t));
    return real(fd, data, length);
}

static void put(const void *data, size_t length) {
    const char *next = data;
    while (length > 0) {
        ssize_t done = plain_write(trace, next, length);
        if (done <= 0) abort();
        next += done;
        length -= done;
    }
}

static void note(int op, int fd, int other, const char *first, const char *second, int64_t offset, const void *data,
                 int64_t length) {
    if (trace < 0) return;
    int before = errno;
    struct head head = {op, fd, other, first ? strlen(first) : 0, second ? strlen(second) : 0, 0, offset, length};
    put(&head, sizeof head);
    if (first) put(first, head.first);
    if (second) put(second, head.second);
    if (data) put(data, length);
    errno = before;
}

static int below(const char *path) {
    size_t length = strlen(folder), all = strlen(path);
    if (trace < 0 || strncmp(path, folder, length) || (path[length] && path[length] != '/')) return 0;
    return !(all > 4 && !strcmp(path + all - 4, "-shm")); /* mapped memory, made again by whoever opens the record */
}

static int known(int fd) { return trace >= 0 && fd >= 0 && fd < DESCRIPTORS && watched[fd]; }

static void of_descriptor(int fd, char *out) {
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, out, PATH_MAX - 1);
    out[length > 0 ? length : 0] = 0;
}

static void absolute(int at, const char *path, char *out) {
    char base[PATH_MAX];
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (at == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        of_descriptor(at, base);
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) out[0] = 0;
}

/* Whether this call is to fail; then errno says how. */
static int fails(int op) {
    calls[op]++;
    if (!(fault_kinds & (1 << op))) return 0;
    counted++;
    if (counted < fault_first || counted >= fault_first + fault_times) return 0;
    failed++;
    errno = fault_error;
    return 1;
}

/* -- what the program under test calls, through ctypes ------------------------------------------------------------- */

int disk_begin(const char *below_this, const char *trace_file) {
    REAL("open", int (*)(const char *, int, ...));
    trace = -1;
    snprintf(folder, sizeof folder, "%s", below_this);
    memset(watched, 0, sizeof watched);
    trace = real(trace_file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    return trace;
}

void disk_mark(const char *text, int length) {
    pthread_mutex_lock(&turn);
    note(MARK, -1, 0, NULL, NULL, 0, text, length);
    pthread_mutex_unlock(&turn);
}

void disk_fault(int kinds, int first, int times, int error, int is_short) {
    fault_kinds = kinds, fault_first = first, fault_times = times, fault_error = error, fault_short = is_short;
    counted = failed = 0;
    memset(calls, 0, sizeof calls);
}

int disk_calls(int op) { return calls[op]; }
int disk_failed(void) { return failed; }

/* -- what is watched ----------------------------------------------------------------------------------------------- */

static int opened(int fd, int flags) {
    char path[PATH_MAX];
    if (fd < 0 || trace < 0 || fd >= DESCRIPTORS) return fd;
    of_descriptor(fd, path);
    watched[fd] = below(path);
    if (watched[fd]) note(OPEN, fd, flags, path, NULL, 0, NULL, 0);
    return fd;
}

static int open_it(int at, const char *path, int flags, mode_t mode) {
    REAL("openat", int (*)(int, const char *, int, ...));
    char whole[PATH_MAX];
    if (trace < 0) return real(at, path, flags, mode);
    absolute(at, path, whole);
    if (!below(whole)) return real(at, path, flags, mode);
    pthread_mutex_lock(&turn);
    int fd = fails(OPEN) ? -1 : opened(real(at, path, flags, mode), flags);
    pthread_mutex_unlock(&turn);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_it(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_it(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags) return open_it(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags) return open_it(at, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return open_it(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_it(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    REAL("close", int (*)(int));
    if (!known(fd)) return real(fd);
    pthread_mutex_lock(&turn);
    watched[fd] = 0;
    note(CLOSE, fd, 0, NULL, NULL, 0, NULL, 0);
    int result = real(fd);
    pthread_mutex_unlock(&turn);
    return result;
}

static int copied(int fd, int copy) {
    if (copy >= 0 && copy < DESCRIPTORS && trace >= 0) {
        watched[copy] = known(fd);
        if (watched[copy]) note(DUP, fd, copy, NULL, NULL, 0, NULL, 0);
    }
    return copy;
}

int dup(int fd) {
    REAL("dup", int (*)(int));
    return copied(fd, real(fd));
}

int dup2(int fd, int to) {
    REAL("dup2", int (*)(int, int));
    return copied(fd, real(fd, to));
}

int dup3(int fd, int to, int flags) {
    REAL("dup3", int (*)(int, int, int));
    return copied(fd, real(fd, to, flags));
}

int fcntl64(int fd, int command, ...) {
    REAL("fcntl64", int (*)(int, int, ...));
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int result = real(fd, command, argument);
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result;
}

static ssize_t write_it(int fd, const void *data, size_t length, off64_t offset) {
    REAL("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t));
    int at_place = offset < 0;
    pthread_mutex_lock(&turn);
    if (fails(WRITE)) {
        if (!fault_short || failed > 1) {
            pthread_mutex_unlock(&turn);
            return -1;
        }
        length = length / 2; /* as much as fitted */
    }
    ssize_t done = at_place ? plain_write(fd, data, length) : real(fd, data, length, offset);
    if (done > 0) note(WRITE, fd, 0, NULL, NULL, at_place ? lseek64(fd, 0, SEEK_CUR) - done : offset, data, done);
    pthread_mutex_unlock(&turn);
    return done;
}

ssize_t write(int fd, const void *data, size_t length) {
    return known(fd) ? write_it(fd, data, length, -1) : plain_write(fd, data, length);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    REAL("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t));
    return known(fd) ? write_it(fd, data, length, offset) : real(fd, data, length, offset);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL("writev", ssize_t (*)(int, const struct iovec *, int));
    if (!known(fd)) return real(fd, parts, count);
    ssize_t all = 0;
    for (int k = 0; k < count; k++) {
        ssize_t done = write_it(fd, parts[k].iov_base, parts[k].iov_len, -1);
        if (done < 0) return all ? all : -1;
        all += done;
        if ((size_t)done < parts[k].iov_len) break;
    }
    return all;
}

/* A faster way that is not modelled: refused, so that the program takes the plain one. */
ssize_t sendfile64(int to, int from, off64_t *offset, size_t length) {
    REAL("sendfile64", ssize_t (*)(int, int, off64_t *, size_t));
    if (!known(to)) return real(to, from, offset, length);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t length) { return sendfile64(to, from, offset, length); }

ssize_t copy_file_range(int from, off64_t *there, int to, off64_t *here, size_t length, unsigned int flags) {
    REAL("copy_file_range", ssize_t (*)(int, off64_t *, int, off64_t *, size_t, unsigned int));
    if (!known(to)) return real(from, there, to, here, length, flags);
    errno = EXDEV;
    return -1;
}

/* What would change a file past us: the reader of the trace refuses to go on. */
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
    REAL("mmap64", void *(*)(void *, size_t, int, int, int, off64_t));
    if (known(fd) && (protection & PROT_WRITE) && (flags & MAP_SHARED)) note(UNKNOWN, fd, 0, "mmap", NULL, 0, NULL, 0);
    return real(address, length, protection, flags, fd, offset);
}
void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap64(address, length, protection, flags, fd, offset);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    REAL("fallocate64", int (*)(int, int, off64_t, off64_t));
    if (known(fd)) note(UNKNOWN, fd, 0, "fallocate", NULL, 0, NULL, 0);
    return real(fd, mode, offset, length);
}
int fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate64(fd, mode, offset, length); }
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    REAL("posix_fallocate64", int (*)(int, off64_t, off64_t));
    if (known(fd)) note(UNKNOWN, fd, 0, "posix_fallocate", NULL, 0, NULL, 0);
    return real(fd, offset, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) { return posix_fallocate64(fd, offset, length); }

int ftruncate64(int fd, off64_t length) {
    REAL("ftruncate64", int (*)(int, off64_t));
    if (!known(fd)) return real(fd, length);
    pthread_mutex_lock(&turn);
    int result = fails(TRUNCATE) ? -1 : real(fd, length);
    if (!result) note(TRUNCATE, fd, 0, NULL, NULL, length, NULL, 0);
    pthread_mutex_unlock(&turn);
    return result;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int truncate64(const char *path, off64_t length) {
    int fd = open64(path, O_WRONLY);
    if (fd < 0) return -1;
    int result = ftruncate64(fd, length), error = errno;
    close(fd);
    errno = error;
    return result;
}
int truncate(const char *path, off_t length) { return truncate64(path, length); }

static int sync_it(int fd, int (*real)(int)) {
    if (!known(fd)) return real(fd);
    pthread_mutex_lock(&turn);
    int result = fails(SYNC) ? -1 : real(fd);
    note(result ? SYNC_FAILED : SYNC, fd, 0, NULL, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return result;
}

int fsync(int fd) {
    REAL("fsync", int (*)(int));
    return sync_it(fd, real);
}

int fdatasync(int fd) {
    REAL("fdatasync", int (*)(int));
    return sync_it(fd, real);
}

/* It starts the writing and promises nothing; so nothing is noted. */
int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags) {
    REAL("sync_file_range", int (*)(int, off64_t, off64_t, unsigned int));
    return real(fd, offset, length, flags);
}

static int names(int op, int from_at, const char *from, int to_at, const char *to, unsigned int flags) {
    REAL("renameat2", int (*)(int, const char *, int, const char *, unsigned int));
    static int (*real_link)(int, const char *, int, const char *, int);
    if (!real_link) real_link = (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");
    char first[PATH_MAX] = "", second[PATH_MAX] = "";
    if (trace >= 0) {
        absolute(from_at, from, first);
        absolute(to_at, to, second);
    }
    int seen = trace >= 0 && (below(first) || below(second));
    if (seen) pthread_mutex_lock(&turn);
    int result = -1;
    if (!seen || !fails(RENAME))
        result = op == RENAME ? real(from_at, from, to_at, to, flags) : real_link(from_at, from, to_at, to, flags);
    if (seen && !result) note(op, -1, 0, first, second, 0, NULL, 0);
    if (seen) pthread_mutex_unlock(&turn);
    return result;
}

int rename(const char *from, const char *to) { return names(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return names(RENAME, a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned int flags) {
    return names(RENAME, a, from, b, to, flags);
}
int link(const char *from, const char *to) { return names(LINK, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return names(LINK, a, from, b, to, flags); }

static int unlink_it(int at, const char *path, int flags) {
    REAL("unlinkat", int (*)(int, const char *, int));
    char whole[PATH_MAX];
    if (trace < 0) return real(at, path, flags);
    absolute(at, path, whole);
    if (!below(whole)) return real(at, path, flags);
    pthread_mutex_lock(&turn);
    int result = fails(UNLINK) ? -1 : real(at, path, flags);
    if (!result) note(UNLINK, -1, flags, whole, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return result;
}

int unlink(const char *path) { return unlink_it(AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return unlink_it(at, path, flags); }
int rmdir(const char *path) { return unlink_it(AT_FDCWD, path, AT_REMOVEDIR); }

static int mkdir_it(int at, const char *path, mode_t mode) {
    REAL("mkdirat", int (*)(int, const char *, mode_t));
    char whole[PATH_MAX];
    if (trace < 0) return real(at, path, mode);
    absolute(at, path, whole);
    if (!below(whole)) return real(at, path, mode);
    pthread_mutex_lock(&turn);
    int result = fails(MKDIR) ? -1 : real(at, path, mode);
    if (!result) note(MKDIR, -1, 0, whole, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return result;
}

int mkdir(const char *path, mode_t mode) { return mkdir_it(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return mkdir_it(at, path, mode); }
