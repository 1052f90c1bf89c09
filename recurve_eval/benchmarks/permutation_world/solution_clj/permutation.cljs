(ns permutation
  "Permutations of the positions 0, 1, 2, ... as sparse maps.

  A permutation is a map from position to image. Its canonical form holds only the positions that move, so
  the identity is {} and two permutations are the same exactly when their canonical forms are equal.")

(defn canonical
  "The canonical form of a mapping. Throws unless it permutes the positions it names."
  [mapping]
  (when-not (= (set (keys mapping)) (set (vals mapping)))
    (throw (ex-info "not a permutation of the positions it names" {:mapping mapping})))
  (into {} (remove (fn [[position image]] (= position image))) mapping))

(defn image
  "Where a position goes; one that the permutation does not name stays."
  [permutation position]
  (get permutation position position))

(defn inverse
  "The permutation that undoes another, in canonical form."
  [permutation]
  (let [moves (canonical permutation)]
    (into {} (map (fn [[position image]] [image position])) moves)))

(defn rotation
  "Each position goes to the one named after it, the last to the first. Throws on a repetition."
  [& positions]
  (when (and (seq positions) (not (apply distinct? positions)))
    (throw (ex-info "a rotation names each position once" {:positions positions})))
  (canonical (zipmap positions (concat (rest positions) (take 1 positions)))))

(defn- after
  "inner first, then outer; both canonical."
  [outer inner]
  (let [moved (into (set (keys outer)) (keys inner))]
    (canonical (into {} (map (fn [position] [position (image outer (image inner position))])) moved))))

(defn compose
  "One permutation for several, the last applied first: ((compose p q) i) is (p (q i)).

  (compose) is the identity, (compose p) is p in canonical form."
  ([] {})
  ([permutation] (canonical permutation))
  ([outer inner] (after (canonical outer) (canonical inner)))
  ([outer inner & more] (reduce after (map canonical (list* outer inner more)))))

(defn arrange
  "A new vector in which the item at position i stands at the image of i.

  Throws where the permutation moves a position that the items do not have."
  [permutation items]
  (let [items (vec items)
        moves (canonical permutation)]
    (when (some #(>= % (count items)) (keys moves))
      (throw (ex-info "the permutation moves a position beyond the items" {:count (count items)})))
    (reduce (fn [arranged [position place]] (assoc arranged place (nth items position))) items moves)))
