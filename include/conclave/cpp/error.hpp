/*
 * Errors in C++: the codes of conclave/error.h as std::error_code, and the exception that carries one.
 *
 *     std::error_code ec;
 *     client.get("/a", ec);
 *     if (ec == CONCLAVE_NO_NODE) ...
 *
 * The codes also compare with std::errc where the meaning is the same (std::errc::timed_out,
 * permission_denied, ...).
 */
#ifndef CONCLAVE_CPP_ERROR_HPP
#define CONCLAVE_CPP_ERROR_HPP

#include <conclave/error.h>

#include <string>
#include <system_error>

namespace conclave
{

namespace detail
{

class category final : public std::error_category
{
  public:
    const char *name() const noexcept override
    {
        return "conclave";
    }

    std::string message(int code) const override
    {
        return conclave_strerror(code);
    }

    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case CONCLAVE_NO_NODE:
            return std::errc::no_such_file_or_directory;
        case CONCLAVE_NODE_EXISTS:
            return std::errc::file_exists;
        case CONCLAVE_NOT_EMPTY:
            return std::errc::directory_not_empty;
        case CONCLAVE_NO_AUTH:
            return std::errc::permission_denied;
        case CONCLAVE_EINVAL:
            return std::errc::invalid_argument;
        case CONCLAVE_ENOMEM:
            return std::errc::not_enough_memory;
        case CONCLAVE_ETIMEDOUT:
            return std::errc::timed_out;
        case CONCLAVE_ECANCELED:
            return std::errc::operation_canceled;
        case CONCLAVE_EBUSY:
            return std::errc::device_or_resource_busy;
        case CONCLAVE_ENOTOWNER:
            return std::errc::operation_not_permitted;
        case CONCLAVE_EDEADLK:
            return std::errc::resource_deadlock_would_occur;
        case CONCLAVE_EDISCONNECTED:
            return std::errc::not_connected;
        default:
            return std::error_condition(code, *this);
        }
    }
};

} // namespace detail

/* The category of all codes of conclave/error.h; its name is "conclave". */
inline const std::error_category &error_category() noexcept
{
    static const detail::category instance;
    return instance;
}

/* Thrown by every function that is called without an error_code; code() is the code. */
class error : public std::system_error
{
  public:
    explicit error(int code, const char *what = "conclave")
        : std::system_error(code, error_category(), what)
    {
    }

    /* Whether the same call may succeed later, unchanged. */
    bool retryable() const noexcept
    {
        return conclave_error_retryable(code().value());
    }
};

} // namespace conclave

/* Makes `ec == CONCLAVE_NO_NODE` and `std::error_code ec = CONCLAVE_EINVAL` work. */
inline std::error_code make_error_code(enum conclave_error code) noexcept
{
    return std::error_code(static_cast<int>(code), conclave::error_category());
}

namespace std
{
template <> struct is_error_code_enum<::conclave_error> : true_type {
};
} // namespace std

namespace conclave
{

namespace detail
{

inline std::error_code to_code(int error) noexcept
{
    return std::error_code(error, error_category());
}

inline void check(int error, const char *what)
{
    if (error != 0) {
        throw conclave::error(error, what);
    }
}

} // namespace detail

} // namespace conclave

#endif
