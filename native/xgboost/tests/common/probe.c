/* Makes socket calls as XGBoost's library does: through slots of its own.
   -DCLOSES_BY_ITSELF: it has no slot for close. -DSENDS_THROUGH_OTHERS: its slot for send holds a function of another library,
   which is this file with -DIS_OTHERS. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef IS_OTHERS

static long calls;

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
  __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

long others_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

#else

#ifdef SENDS_THROUGH_OTHERS
long others_calls(void);
#else
static long others_calls(void) { return 0; }
#endif

/* How often the other library's function was called. */
long probe_calls_of_others(void) { return others_calls(); }

/* Sends all of it; 0, or an error number. */
int probe_send_all(int fd, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes += count;
    length -= (size_t)count;
  }
  return 0;
}

/* Waits with poll, then receives, until all of it is there; 0, an error number, or -1 at the end of the stream. */
int probe_receive_all(int fd, char *room, size_t length) {
  while (length > 0) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, -1) < 0 && errno != EINTR) return errno;
    ssize_t count = recv(fd, room, length, 0);
    if (count == 0) return -1;
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    room += count;
    length -= (size_t)count;
  }
  return 0;
}

/* One call each, as XGBoost makes them on a descriptor that poll found ready: the count, or minus an error number. */
long probe_receive_once(int fd, char *room, size_t length) {
  ssize_t count = recv(fd, room, length, 0);
  return count < 0 ? -(long)errno : (long)count;
}

long probe_send_once(int fd, const char *bytes, size_t length) {
  ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);
  return count < 0 ? -(long)errno : (long)count;
}

#ifdef CLOSES_BY_ITSELF
int probe_close(int fd) { return (int)syscall(SYS_close, fd); }
#else
int probe_close(int fd) { return close(fd); }
#endif

#endif
