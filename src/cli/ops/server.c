/*
 * `conclave server`: reads the configuration, runs the server on the main thread until SIGTERM,
 * SIGINT or a failure, and turns the outcome into an exit code and one line.
 */
#include "cli/common/command.h"
#include "cli/ops/input_watch.h"

#include "admin/admin.h"
#include "base/log.h"
#include "daemon/config_reload.h"
#include "daemon/effective_config.h"
#include "daemon/sandbox.h"
#include "daemon/server.h"
#include "daemon/zoo_cfg.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

struct server_run {
    uv_loop_t loop;
    uv_signal_t term;
    uv_signal_t interrupt;
    uv_signal_t hangup;
    struct server *server;
    struct admin *admin;
    struct input_watch input; /* --until-eof */
    struct config_reload *reload;

    int exit_code;
    bool closing;
};

static int server_exit_code_of(int error)
{
    switch (error) {
    case CONCLAVE_EINVAL:
        return CLI_EXIT_USAGE;
    case CONCLAVE_EBUSY:
    case CONCLAVE_ERESOLVE:
    case CONCLAVE_EDISCONNECTED:
        return CLI_EXIT_UNAVAILABLE;
    case CONCLAVE_ENOMEM:
        return CLI_EXIT_INTERNAL;
    default:
        return CLI_EXIT_IO;
    }
}

static void print_help(void)
{
    printf("usage: conclave server [zoo.cfg] [--data DIR] [--listen HOST:PORT]\n"
           "                       [--admin HOST:PORT|off] [--test] [--until-eof]\n"
           "                       [--KEY VALUE ...]\n"
           "\n"
           "Serves ZooKeeper clients. Without arguments: 127.0.0.1:2181, data in\n"
           "./conclave-data. Prints one line when it is ready; SIGTERM ends it cleanly.\n"
           "\n"
           "  zoo.cfg                      a configuration of Apache ZooKeeper, as it is\n"
           "  --data DIR                   data folder, created when missing\n"
           "  --listen HOST:PORT           client port; port 0 takes a free one\n"
           "  --admin HOST:PORT            HTTP for operators: commands, metrics, probes\n"
           "                               (127.0.0.1:8080)\n"
           "  --admin off                  none\n"
           "  --server-id N                which server.N line is this server's\n"
           "  --test                       a server for tests: nothing on disk, free ports,\n"
           "                               faults on request (docs/testing.md)\n"
           "  --until-eof                  end when the standard input ends\n"
           "  -h, --help                   this text\n"
           "  --help-all                   this text and all keys, with their defaults\n"
           "\n"
           "Any key of zoo.cfg can be given as --KEY VALUE; the command line beats the file.\n"
           "\n"
           "Exit codes: 0 ended by a signal, 64 wrong key or value, 69 port unavailable,\n"
           "74 data folder locked, damaged or foreign, or disk failure.\n");
}

static void print_keys(void)
{
    struct buf keys;
    buf_init(&keys, 0);
    zoo_cfg_print_keys(&keys);
    const char *text = buf_cstr(&keys);
    printf("\nKeys with effect, with their defaults:\n\n%s", text != NULL ? text : "");
    buf_finish(&keys);
}

static void on_server_closed(void *ctx)
{
    struct server_run *run = ctx;
    run->server = NULL;
    run->reload->server = NULL;
    admin_close(run->admin, NULL, NULL);
    run->admin = NULL;
    uv_close((uv_handle_t *)&run->term, NULL);
    uv_close((uv_handle_t *)&run->interrupt, NULL);
    uv_close((uv_handle_t *)&run->hangup, NULL);
    input_watch_close(&run->input);
}

static void begin_close(struct server_run *run);

static void on_input_end(void *ctx)
{
    begin_close(ctx);
}

static void begin_close(struct server_run *run)
{
    if (!run->closing && run->server != NULL) {
        run->closing = true;
        server_close(run->server, on_server_closed, run);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    begin_close(handle->data);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    struct server_run *run = handle->data;
    if (!run->closing && run->server != NULL) {
        admin_reload(run->admin, "SIGHUP");
    }
}

static void server_on_ready(void *ctx, struct server *s)
{
    struct server_run *run = ctx;
    struct net_address address;
    char text[NET_TEXT_MAX];
    char admin[NET_TEXT_MAX] = "off";
    if (admin_address(run->admin, &address)) {
        net_address_format(&address, admin);
    }
    bool plain = server_address(s, PORT_CLIENT, &address);
    bool grouped = server_options(s)->ensemble.enabled;
    printf("conclave: ready client=%s admin=%s mode=%s id=%lld",
           plain ? net_address_format(&address, text) : "off", admin,
           grouped ? "ensemble" : "standalone", (long long)member_number(server_id(s)));
    if (server_address(s, PORT_SECURE, &address)) {
        printf(" secure=%s", net_address_format(&address, text));
    }
    putchar('\n');
    if (fflush(stdout) != 0) {
        /* A process that waits for the line does not get it; the service itself goes on. */
        fprintf(stderr, "conclave: server: the ready line could not be written to stdout\n");
    }
}

static void on_failed(void *ctx, int error, const char *text)
{
    struct server_run *run = ctx;
    fprintf(stderr, "conclave: server: %s (%s)\n", text, conclave_strerror(error));
    run->exit_code = error == CONCLAVE_EBUSY ? CLI_EXIT_UNAVAILABLE : CLI_EXIT_IO;
    begin_close(run);
}

/* As many connections as the operator's hard limit allows. A failure to raise the limit is no error. */
static void raise_descriptor_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
            fprintf(stderr, "conclave: server: the limit of open files could not be raised\n");
        }
    }
}

/* The process drops these rights before it has a thread or a key in memory. */
static int confine(const struct server_options *options)
{
    if (!options->core_dumps) {
        sandbox_core_dumps();
    }
    int rc = options->seccomp ? sandbox_system_calls() : 0;
    if (rc != 0) {
        fprintf(stderr, "conclave: server: seccomp=yes: %s: remove the key\n",
                rc == CONCLAVE_EUNSUPPORTED ? "there is no list of system calls for this machine"
                                            : "the kernel refuses the filter");
        return CLI_EXIT_USAGE;
    }
    return 0;
}

static int open_both(struct server_run *run, const struct zoo_cfg *config, char **ret_text)
{
    struct server_callbacks callbacks = {.ctx = run, .ready = server_on_ready, .failed = on_failed};
    /* The admin ports first: whether they can be had is known before the log is read, which may take long. */
    int rc = admin_open(&run->loop, &config->admin.options, &run->admin, ret_text);
    if (rc == 0) {
        rc = server_open(&run->loop, &config->options, &callbacks, &run->server, ret_text);
    }
    if (rc == 0) {
        admin_attach(run->admin, run->server);
        run->reload->server = run->server;
        admin_set_reload(run->admin, run->reload);
    }
    if (rc == 0 && geteuid() == 0) {
        log_warn_advice("server", "runs-as-root", "start the server as a user of its own",
                        "text=\"a user of its own is enough for a server\"");
    }
    return rc;
}

static int run_server(const struct zoo_cfg *config, struct config_reload *reload)
{
    struct server_run run = {.reload = reload};
    char *text = NULL;
    if (uv_loop_init(&run.loop) != 0 || uv_signal_init(&run.loop, &run.term) != 0 ||
        uv_signal_init(&run.loop, &run.interrupt) != 0 ||
        uv_signal_init(&run.loop, &run.hangup) != 0) {
        fprintf(stderr,
                "conclave: server: the event loop cannot be made: out of memory or descriptors\n");
        return CLI_EXIT_INTERNAL;
    }
    run.term.data = run.interrupt.data = run.hangup.data = &run;
    int rc = open_both(&run, config, &text);
    if (rc != 0) {
        fprintf(stderr, "conclave: server: %s\n", text != NULL ? text : conclave_strerror(rc));
        free(text);
        run.exit_code = server_exit_code_of(rc);
        on_server_closed(&run);
    } else if (uv_signal_start(&run.term, on_signal, SIGTERM) != 0 ||
               uv_signal_start(&run.interrupt, on_signal, SIGINT) != 0 ||
               uv_signal_start(&run.hangup, on_hangup, SIGHUP) != 0) {
        run.exit_code = CLI_EXIT_INTERNAL;
        begin_close(&run);
    } else if (config->until_eof && !input_watch_open(&run.input, &run.loop, on_input_end, &run)) {
        fprintf(stderr, "conclave: server: --until-eof: the standard input is neither a pipe, a "
                        "socket nor a terminal: give one that ends when the server is to end\n");
        run.exit_code = CLI_EXIT_USAGE;
        begin_close(&run);
    }
    if (uv_run(&run.loop, UV_RUN_DEFAULT) != 0 || uv_loop_close(&run.loop) != 0) {
        fprintf(stderr, "conclave: server: the event loop did not end cleanly\n");
        return run.exit_code != 0 ? run.exit_code : CLI_EXIT_INTERNAL;
    }
    return run.exit_code;
}

/* The values of secrets, which have been read, so that no list of processes shows them any longer. */
static void hide_secrets(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (strncmp(argv[i], "--", 2) != 0 || zoo_cfg_is_flag(argv[i])) {
            continue;
        }
        if (equals != NULL) {
            *equals = '\0';
        }
        bool secret = effective_config_is_secret(argv[i]);
        char *value = equals != NULL ? equals + 1 : argv[++i];
        if (secret && value != NULL) {
            memset(value, 'x', strlen(value));
        }
        if (equals != NULL) {
            *equals = '=';
        }
    }
}

int command_server(int argc, char **argv)
{
    struct zoo_cfg config;
    zoo_cfg_init(&config);
    int rc = zoo_cfg_parse(&config, argc, argv);
    struct config_reload reload;
    int copied = config_reload_init(&reload, &config, argc, argv);
    rc = rc == 0 ? copied : rc;
    hide_secrets(argc, argv);
    int code;
    if (config.notices.len > 0) {
        fwrite(config.notices.data, 1, config.notices.len, stderr);
    }
    if (rc != 0) {
        fprintf(stderr, "conclave: server: %s\n",
                config.error != NULL ? config.error : conclave_strerror(rc));
        code = server_exit_code_of(rc);
    } else if (config.help) {
        print_help();
        if (config.help_all) {
            print_keys();
        }
        code = 0;
    } else {
        raise_descriptor_limit();
        code = confine(&config.options);
        log_set_level(config.log_level);
        log_set_format(config.log_format);
        code = code == 0 ? run_server(&config, &reload) : code;
        log_finish();
    }
    config_reload_finish(&reload);
    zoo_cfg_finish(&config);
    return code;
}
