#include "daemon/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void sandbox_core_dumps(void)
{
    static const char none[] = "0";
    const struct rlimit limit = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &limit);
    /* RLIMIT_CORE does not limit a dump that the kernel pipes to a program, such as systemd's. */
    int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, none, sizeof none - 1);
        close(fd);
    }
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#ifdef MACHINE

static const uint16_t given_up[] = {
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_userfaultfd,
    SYS_open_by_handle_at,
    SYS_personality,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_quotactl,
    SYS_vhangup,
};

enum {
    GIVEN_UP = sizeof given_up / sizeof given_up[0],
    HEAD = 4,
    X32_BIT = 0x40000000,
};

static_assert(HEAD + GIVEN_UP + 1 <= UINT8_MAX, "a jump reaches the last instruction");

int sandbox_system_calls(void)
{
    struct sock_filter code[HEAD + GIVEN_UP + 2];
    size_t n = 0;
    /* Another architecture and x32 number their system calls differently, so all of these are refused. */
    const size_t refuse = HEAD + GIVEN_UP + 1; /* the last instruction */
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 0,
                                           (uint8_t)(refuse - n - 1));
    n++;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT,
                                           (uint8_t)(refuse - n - 1), 0);
    n++;
    for (size_t i = 0; i < GIVEN_UP; i++) {
        code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, given_up[i],
                                               (uint8_t)(refuse - n - 1), 0);
        n++;
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    assert(n == refuse + 1 && n == sizeof code / sizeof code[0]);
    const struct sock_fprog program = {.len = (unsigned short)n, .filter = code};
    /* Without no_new_privs, only root may install a filter. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        return CONCLAVE_EIO;
    }
    return 0;
}

#else

int sandbox_system_calls(void)
{
    return CONCLAVE_EUNSUPPORTED;
}

#endif
