/* What runs before main on a Cortex-M, and the way out through QEMU (semihosting). */
#include <stdint.h>

extern uint32_t data_begin, data_end, data_in_flash, bss_begin, bss_end, stack_top;

int main(void);
void print(const char *text);
void reset(void);

static void ask(uint32_t what, uint32_t argument)
{
    register uint32_t operation __asm__("r0") = what;
    register uint32_t value __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(operation) : "r"(value) : "memory");
}

void print(const char *text)
{
    ask(0x04U, (uint32_t)text); /* SYS_WRITE0 */
}

static void leave(int status)
{
    ask(0x18U, (status == 0) ? 0x20026U : 0x20023U); /* SYS_EXIT: done, or an error */
    for (;;) {
    }
}

static void fault(void)
{
    print("fault: the image does not run on this processor (do CPU and MACHINE belong together?)\n");
    leave(1);
}

void reset(void)
{
    uint32_t *to;
    const uint32_t *from = &data_in_flash;
    for (to = &data_begin; to < &data_end; to++) {
        *to = *from;
        from++;
    }
    for (to = &bss_begin; to < &bss_end; to++) {
        *to = 0U;
    }
    leave(main());
}

/* The first words of flash: where the stack begins, where to start, and what to do on faults. */
typedef union {
    uint32_t *stack;
    void (*handler)(void);
} vector;

__attribute__((section(".vectors"), used)) static const vector vectors[] = {
    {&stack_top}, {.handler = reset}, {.handler = fault}, {.handler = fault},
};
