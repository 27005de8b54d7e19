import type { Client } from "./client.ts";
import type { Input, Output } from "./terminal.ts";

/** The parts of the process that commands use. */
export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  /** Standard input, which is opened by the first call. */
  readonly input: () => Input;
  /** Standard output, for commands that need more of it than `write`. */
  readonly output: Output;
  /** Writes to standard output. */
  readonly write: (text: string) => void;
  /** Writes to standard error: messages beside the answer itself. */
  readonly note: (text: string) => void;
  /** Standard error, where the last line may be overwritten. */
  readonly screen: Output;
  /** The service of `--server`, SVC_URL or SVC_PORT, with the token that belongs to it. */
  readonly client: () => Promise<Client>;
  /** Sets the exit code: 0 done, 1 failed, 2 usage. */
  readonly exit: (code: number) => void;
}
