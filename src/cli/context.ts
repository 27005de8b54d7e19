import type { Client } from "./client.ts";
import type { Screen } from "./terminal.ts";

/** What commands use of the process they run in. */
export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  /** Writes to standard output. */
  readonly write: (text: string) => void;
  /** Writes to standard error: what is not the answer itself. */
  readonly note: (text: string) => void;
  /** Standard error, as a place where a line may be written over. */
  readonly screen: Screen;
  /** The service of `--server`, SVC_URL or SVC_PORT, with the token that belongs to it. */
  readonly client: () => Promise<Client>;
  /** Sets the exit code: 0 done, 1 failed, 2 usage. */
  readonly exit: (code: number) => void;
}
