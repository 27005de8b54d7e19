import type { ComponentChildren, JSX } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { messageOf } from "./api.ts";

/** Shows its children, or why they cannot be shown: an answer of another version must not leave an empty page. */
export function Boundary({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [error, reset] = useErrorBoundary((thrown) => console.warn(thrown));
  if (error === undefined) return <>{children}</>;
  return (
    <div role="alert">
      <p>
        This page cannot show what the server has answered ({messageOf(error)}). The server may be of another version
        than this page: reload the page. If that does not help, <code>berth status</code> shows the same in a terminal.
      </p>
      <p class="row">
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
        <button type="button" onClick={reset}>
          Try again
        </button>
      </p>
    </div>
  );
}
