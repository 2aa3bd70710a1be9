//! A list that mostly has one element.
//!
//! Invariant: the first element stands in the list itself, so a list of one allocates nothing. `more` is empty when there is no
//! first element.

/// A list of few elements, in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Few<T> {
    first: Option<T>,
    more: Option<Box<More<T>>>,
}

/// The elements behind the first one, apart so that a list of one is small.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct More<T>(Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, more: None }
    }
}

impl<T> Few<T> {
    pub(in crate::engine) fn push(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else {
            self.more.get_or_insert_with(|| Box::new(More(Vec::new()))).0.push(element);
        }
    }

    pub(in crate::engine) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.as_ref().map_or(0, |more| more.0.len())
    }

    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(in crate::engine) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.first.iter().chain(self.more.as_ref().map_or(&[][..], |more| &more.0))
    }

    pub(in crate::engine) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.more.as_mut().map_or(&mut [][..], |more| &mut more.0))
    }

    /// Removes the last element for which `is_it` holds. Elements that leave are mostly among the last ones that came.
    pub(in crate::engine) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.more.as_ref().and_then(|more| more.0.iter().rposition(&is_it));
        let removed = match (at, &mut self.more) {
            (Some(at), Some(more)) => more.0.remove(at),
            _ => {
                let removed = self.first.take_if(|first| is_it(first))?;
                self.first = self.more.as_mut().map(|more| more.0.remove(0));
                removed
            }
        };
        self.more.take_if(|more| more.0.is_empty());
        Some(removed)
    }

    /// Takes all elements.
    pub(in crate::engine) fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more.map(|more| more.0).unwrap_or_default())
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_order_when_others_leave() {
        let mut few = Few::default();
        few.extend([1, 2, 3]);
        assert_eq!(few.remove(|element| *element == 1), Some(1));
        assert_eq!(few.remove(|element| *element == 9), None);
        few.push(4);
        assert_eq!((few.len(), few.iter().copied().collect::<Vec<_>>()), (3, vec![2, 3, 4]));
        assert_eq!(few.remove(|element| *element == 3), Some(3));
        assert_eq!(few.take().into_iter().collect::<Vec<_>>(), [2, 4]);
        assert!(few.is_empty());
    }
}
