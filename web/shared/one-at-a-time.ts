/**
 * A task of which one run goes on at a time: whoever asks for another one meanwhile gets the outcome of that run. An earlier
 * answer cannot come after a later one then.
 */
export function oneAtATime(task: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return async () => {
    running ??= task().finally(() => (running = undefined));
    await running;
  };
}
