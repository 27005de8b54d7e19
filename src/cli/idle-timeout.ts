import type { ClientRequest } from "node:http";

/** The service accepts connections and answers nothing. */
export class Unresponsive extends Error {
  override readonly name = "Unresponsive";
}

/**
 * Ends a request with `Unresponsive` when its service does not live. An answer may take minutes, while a model computes or a
 * slot loads: after `idleTimeoutMs` without a byte, `startCheck` sends a request of its own, which must get any answer within the
 * same time again. Ends with the first byte of the answer, or with the request.
 */
export function watchIdle(request: ClientRequest, startCheck: () => ClientRequest, idleTimeoutMs: number): void {
  let livenessCheck: ClientRequest | undefined;
  let timer = setTimeout(checkLiveness, idleTimeoutMs);
  function checkLiveness(): void {
    const check = startCheck();
    livenessCheck = check;
    timer = setTimeout(() => request.destroy(new Unresponsive()), idleTimeoutMs);
    check.once("response", (answer) => {
      answer.resume();
      clearTimeout(timer);
      timer = setTimeout(checkLiveness, idleTimeoutMs);
    });
    // An error here proves nothing: the timer continues.
    check.on("error", () => undefined);
    check.end();
  }
  const dispose = (): void => {
    clearTimeout(timer);
    livenessCheck?.destroy();
  };
  request.once("response", dispose);
  request.once("close", dispose);
}
