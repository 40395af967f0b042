/*
 * The commands of `conclave`: one row of one table each (command_table.c). A command gets the arguments behind its name and
 * returns the exit code.
 */
#ifndef CLI_COMMON_COMMAND_H
#define CLI_COMMON_COMMAND_H

/* Exit codes besides 0, after sysexits.h; conclave-elect(1) has those of commands that run a command. */
enum cli_exit {
    CLI_EXIT_FAILED = 1,       /* the request was answered with an error */
    CLI_EXIT_USAGE = 64,       /* wrong arguments, key or value */
    CLI_EXIT_UNAVAILABLE = 69, /* cannot connect; port in use */
    CLI_EXIT_INTERNAL = 70,    /* our own fault */
    CLI_EXIT_DENIED = 71,      /* the system refused to kill the child when it had to end */
    CLI_EXIT_GUARDIAN = 73,    /* the guardian could not be started */
    CLI_EXIT_IO = 74,          /* data folder locked, damaged, foreign; disk trouble */
    CLI_EXIT_TIMEOUT = 75,     /* not acquired in time */
    CLI_EXIT_LOST = 76,        /* leadership or lock lost, child ended */
    CLI_EXIT_AUTH = 77,        /* not permitted */
    CLI_EXIT_CONFIG = 78,      /* configuration conflict */
};

/* argv[0] is the command's own name. */
int command_server(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_status(int argc, char **argv);
int command_members(int argc, char **argv);
int command_sessions(int argc, char **argv);
int command_reload(int argc, char **argv);
int command_slow(int argc, char **argv);
int command_secret(int argc, char **argv);
int command_certs(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_users(int argc, char **argv);
int command_backup(int argc, char **argv);
int command_restore(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_export(int argc, char **argv);
int command_migrate(int argc, char **argv);
int command_history(int argc, char **argv);
int command_undelete(int argc, char **argv);
int command_elect(int argc, char **argv);
int command_lock(int argc, char **argv);
int command_semaphore(int argc, char **argv);
int command_switch(int argc, char **argv);
int command_queue(int argc, char **argv);
int command_barrier(int argc, char **argv);
int command_group(int argc, char **argv);
int command_lease(int argc, char **argv);
int command_config(int argc, char **argv);
int command_redis_failover(int argc, char **argv);
int command_ls(int argc, char **argv);
int command_get(int argc, char **argv);
int command_set(int argc, char **argv);
int command_create(int argc, char **argv);
int command_rm(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_watch(int argc, char **argv);
int command_tree(int argc, char **argv);
int command_count(int argc, char **argv);
int command_acl(int argc, char **argv);
int command_quota(int argc, char **argv);
int command_fence(int argc, char **argv);
int command_sync(int argc, char **argv);
int command_whoami(int argc, char **argv);
int command_shell(int argc, char **argv);

#endif
