#include "daemon/admin_options.h"

struct admin_options admin_options_default(void)
{
    return (struct admin_options){
        .http = true,
        .listen = {.host = "127.0.0.1", .port = 8080},
        .console = true,
        .command_url = "/commands",
        .backup_interval_ms = 300000,
        .answer_bytes = 1 << 20,
        .memb = true,
        .idle_ms = 30000,
        .metrics_listen = {.port = 7000},
    };
}
