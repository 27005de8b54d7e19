import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../../shared/api.ts";

interface ActionProps {
  readonly children: ComponentChildren;
  /** For a button whose text alone does not say what it acts on. */
  readonly label?: string;
  readonly isMain?: boolean;
  readonly disabled?: boolean;
  /** Asked before it acts. */
  readonly confirm?: string;
  readonly onClick: () => Promise<unknown>;
  readonly onDone?: () => void;
}

/** A button that acts on the server: not twice at once, and its failure stands beside it. */
export function Action({ children, label, isMain, disabled, confirm, onClick, onDone }: ActionProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState("");
  const act = async (): Promise<void> => {
    if (confirm !== undefined && !globalThis.confirm(confirm)) return;
    setBusy(true);
    setFailure("");
    try {
      await onClick();
      onDone?.();
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <button
        type="button"
        class={isMain === true ? "main" : undefined}
        aria-label={label}
        aria-busy={isBusy}
        disabled={disabled === true || isBusy}
        onClick={() => void act()}
      >
        {children}
      </button>
      {failure !== "" && <span role="alert">{failure}</span>}
    </>
  );
}
