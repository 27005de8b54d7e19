import type { ClientRequest } from "node:http";

/** What was asked takes connections, and answers nothing. */
export class Silent extends Error {
  override readonly name = "Silent";
}

/**
 * Ends a request with `Silent` when its service does not live. An answer may take minutes, where a model thinks or a
 * slot is waited for: a service that is silent for `silentMs` is asked by `ask` whether it lives, and must answer anything
 * within as long again. Ends with the first byte of the answer, or with the request.
 */
export function watchSilence(request: ClientRequest, ask: () => ClientRequest, silentMs: number): void {
  let asking: ClientRequest | undefined;
  let timer = setTimeout(look, silentMs);
  function look(): void {
    const question = ask();
    asking = question;
    timer = setTimeout(() => request.destroy(new Silent()), silentMs);
    question.once("response", (answer) => {
      answer.resume();
      clearTimeout(timer);
      timer = setTimeout(look, silentMs);
    });
    // Nothing is known by that: the time goes on.
    question.on("error", () => undefined);
    question.end();
  }
  const dispose = (): void => {
    clearTimeout(timer);
    asking?.destroy();
  };
  request.once("response", dispose);
  request.once("close", dispose);
}
