import { isatty } from "node:tty";

const lookMs = 500;

/**
 * Sends this process the HUP that `make` does not forward. Where `make` leads the terminal's session, as in
 * `xterm -e make run` or a tmux window of its own, the kernel sends HUP to `make` alone when the terminal is closed,
 * and `make` waits for its children without a signal to them. A closed terminal is no terminal any more.
 */
export function watchTerminal(isTerminal: (fd: number) => boolean = isatty): Disposable {
  const stdout = 1;
  if (!isTerminal(stdout)) return { [Symbol.dispose]: () => undefined };
  const timer = setInterval(() => {
    if (isTerminal(stdout)) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGHUP");
  }, lookMs);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
