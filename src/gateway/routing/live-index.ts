import type { PublishedStore } from "../../store/store.ts";
import { buildIndex, type ResolutionIndex } from "./index.ts";
import type { Upstreams } from "../providers/upstreams.ts";

/**
 * The index as of the last change. It subscribes before it reads, in one step: a change in between would stay unseen
 * until the next one, which may be hours later.
 */
export class LiveIndex implements Disposable {
  readonly #published: Pick<PublishedStore, "slots" | "registry">;
  readonly #upstreams: Pick<Upstreams, "refs">;
  readonly #stack = new DisposableStack();
  #current: ResolutionIndex;

  constructor(
    published: Pick<PublishedStore, "slots" | "registry" | "watch">,
    upstreams: Pick<Upstreams, "refs" | "update" | "watch">,
  ) {
    this.#published = published;
    this.#upstreams = upstreams;
    this.#stack.use(
      published.watch(({ slots, registry }) => {
        if (registry) upstreams.update(published.registry().upstreams);
        // Not for a heartbeat, which comes every second.
        if (registry || slots.length > 0) this.#current = this.#build();
      }),
    );
    // Lists of models may arrive at any time.
    this.#stack.use(upstreams.watch(() => (this.#current = this.#build())));
    upstreams.update(published.registry().upstreams);
    this.#current = this.#build();
  }

  get current(): ResolutionIndex {
    return this.#current;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  #build(): ResolutionIndex {
    return buildIndex(this.#published, this.#upstreams.refs());
  }
}
