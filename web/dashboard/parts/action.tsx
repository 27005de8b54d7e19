import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { messageOf } from "../../shared/api.ts";
import { ask } from "./ask.tsx";
import { useOnce } from "./once.ts";

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
  const [isBusy, once] = useOnce();
  const [failure, setFailure] = useState("");
  const act = async (): Promise<void> => {
    setFailure("");
    try {
      await onClick();
      onDone?.();
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  const press = async (): Promise<void> => {
    // Before it is busy: a button that is off cannot get the focus back from the question.
    const yes = typeof children === "string" ? children : "Yes";
    if (confirm === undefined || (await ask({ text: confirm, yes }))) await once(act);
  };
  return (
    <>
      <button
        type="button"
        class={isMain === true ? "main" : undefined}
        aria-label={label}
        aria-busy={isBusy}
        disabled={disabled === true || isBusy}
        onClick={() => void press()}
      >
        {children}
      </button>
      {failure !== "" && <span role="alert">{failure}</span>}
    </>
  );
}
